# SPDX-License-Identifier: MIT
# What is installed, and the Debian packages; the Makefile includes this. tools/package/README.md.

PREFIX ?= /usr
LIBDIR ?= $(PREFIX)/lib
# systemd and shells look there, whatever PREFIX is; also for a configuration.
SYSTEM ?= /usr
SYSCONFDIR ?= /etc
P := build/package

# ---- manual and completion -----------------------------------------------------------------------
MANUAL := $(addprefix $(P)/,agentix.1 agx.1 agentix-door.1 agentix.ini.5 agentix-protocol.7)
COMPLETION := $(addprefix $(P)/completion/,agentix agx agentix-door)
MANUAL_TOOL := tools/package/manual.py
MADE_PAGE = $(call say,MAN ) && python3 $(MANUAL_TOOL) $(1) >$@.new && mv $@.new $@

$(MANUAL) $(COMPLETION): build/docgen $(MANUAL_TOOL) tools/package/page.py build/version.c
$(P)/agentix.1: tools/package/agentix.md build/docgen
	$(Q)$(call MADE_PAGE,$<)
$(P)/agx.1: tools/package/agx.md $(B)/agx
	$(Q)$(call MADE_PAGE,$< $(B)/agx)
$(P)/agentix-door.1: tools/package/agentix-door.md $(B)/agentix-door
	$(Q)$(call MADE_PAGE,$< $(B)/agentix-door)
$(P)/agentix.ini.5: docs/config.md
	$(Q)$(call MADE_PAGE,$<)
$(P)/agentix-protocol.7: docs/protocol.md
	$(Q)$(call MADE_PAGE,$<)
$(COMPLETION): $(P)/completion/%: $(B)/% tools/package/completion.py
	$(call say,BASH)
	$(Q)tools/package/completion.py $< >$@.new && mv $@.new $@

# ---- install -------------------------------------------------------------------------------------
# $(call install_into,MODE,FOLDER,FILES)
install_into = install -d $(DESTDIR)$(2) && install -m $(1) $(3) $(DESTDIR)$(2)/
MAN := $(PREFIX)/share/man
COMPLETIONS := $(SYSTEM)/share/bash-completion/completions
UNITS := $(SYSTEM)/lib/systemd/system
# Pages and messages name docs/NAME.md: they are found below share/doc/agentix by this name.
DOC := $(PREFIX)/share/doc/agentix/docs

# Where the programs are, is for PREFIX to say.
DOOR_UNITS := $(addprefix $(P)/agentix-door.,service socket)
SERVICE_FILES := $(P)/agentix.service $(P)/agentix.socket $(DOOR_UNITS)
$(SERVICE_FILES): $(P)/%: tools/systemd/% FORCE
	@mkdir -p $(@D)
	$(Q)sed 's|/usr/bin/agentix|$(PREFIX)/bin/agentix|' $< >$@

# The client library's headers include each other by their path in the tree.
SDK_HEADERS := agx.h request.h flow.h
CHAT_HEADERS := $(addprefix config/chat/,chat.h formats.def answer.h form.h json.h)
$(P)/include/%.h: tools/sdk/%.h
	@mkdir -p $(@D)
	$(Q)sed 's|#include "tools/sdk/|#include "|' $< >$@
$(P)/agentix.pc: tools/package/agentix.pc.in FORCE
	@mkdir -p $(@D)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|' \
	    -e "s|@VERSION@|$$(tools/package/version | cut -d' ' -f1)|" $< >$@

.PHONY: install install-programs install-door install-library
install: install-programs install-door install-library  ## into DESTDIR, below PREFIX (/usr)
install-programs: $(B)/agentix $(B)/agx $(MANUAL) $(COMPLETION)
install-programs: $(P)/agentix.service $(P)/agentix.socket
	$(call install_into,755,$(PREFIX)/bin,$(B)/agentix $(B)/agx)
	$(call install_into,644,$(MAN)/man1,$(P)/agentix.1 $(P)/agx.1)
	$(call install_into,644,$(MAN)/man5,$(P)/agentix.ini.5)
	$(call install_into,644,$(MAN)/man7,$(P)/agentix-protocol.7)
	$(call install_into,644,$(COMPLETIONS),$(P)/completion/agentix $(P)/completion/agx)
	$(call install_into,644,$(UNITS),$(P)/agentix.service $(P)/agentix.socket)
	install -D -m 644 tools/systemd/agentix.sysusers \
	    $(DESTDIR)$(SYSTEM)/lib/sysusers.d/agentix.conf
	install -D -m 644 tools/systemd/agentix.tmpfiles \
	    $(DESTDIR)$(SYSTEM)/lib/tmpfiles.d/agentix.conf
	$(call install_into,644,$(SYSCONFDIR)/agentix,tools/package/agentix.ini)
	$(call install_into,644,$(DOC),$(wildcard docs/*.md) docs/agentix.ini)
install-door: $(B)/agentix-door $(MANUAL) $(COMPLETION) $(DOOR_UNITS)
	$(call install_into,755,$(PREFIX)/bin,$(B)/agentix-door)
	$(call install_into,644,$(MAN)/man1,$(P)/agentix-door.1)
	$(call install_into,644,$(COMPLETIONS),$(P)/completion/agentix-door)
	$(call install_into,644,$(UNITS),$(DOOR_UNITS))
install-library: $(B)/libagx.a $(SDK_HEADERS:%=$(P)/include/%) $(P)/agentix.pc
	$(call install_into,644,$(PREFIX)/include/agentix,$(SDK_HEADERS:%=$(P)/include/%))
	$(call install_into,644,$(PREFIX)/include/agentix/config/chat,$(CHAT_HEADERS))
	$(call install_into,644,$(LIBDIR),$(B)/libagx.a)
	$(call install_into,644,$(LIBDIR)/pkgconfig,$(P)/agentix.pc)

# ---- Debian packages -----------------------------------------------------------------------------
.PHONY: deb
deb: | build/.setup-package
deb:  ## Debian packages in build/deb, checked by lintian
	@tools/package/deb
