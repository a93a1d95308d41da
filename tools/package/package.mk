# SPDX-License-Identifier: MIT
# What is installed, and the packages. The Makefile includes this.

PREFIX ?= /usr
DESTDIR ?=
LIBDIR := $(PREFIX)/lib
UNITDIR := $(PREFIX)/lib/systemd/system
SYSCONFDIR := /etc

