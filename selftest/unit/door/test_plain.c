/* SPDX-License-Identifier: MIT */
/*
 * Goal: health says whether the appliance can be reached, whatever becomes of one key.
 * Method: two domains, whose connections are up or down by hand.
 */
#include "selftest/unit/door/door_rig.h"

#include <errno.h>

#include "tools/door/uplink/absence.h"

static const struct config_key alice = {.id = "alice"}, carol = {.id = "carol"};
static struct uplink of_carol[2];

/* The connections of the rig are alice's, and one is up; carol's are down. */
static void begin(void)
{
    rig_begin();
    rig.door.domains[0].key = &alice;
    rig.door.domains[1] = (struct domain){.index = 1, .key = &carol, .uplinks = of_carol};
    rig.door.domains_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        of_carol[i] = (struct uplink){.domain = &rig.door.domains[1], .watched = -1};
    }
}

static void assert_health(uint32_t status, const char *text)
{
    struct request *request = request_take(&rig.door, "GET", "/health");
    assert_non_null(request);
    request->domain = &rig.door.domains[0];
    request_judge(request);
    assert_int_equal(request->status, status);
    assert_non_null(strstr(rig_out(request), text));
    request_free(request);
}

static void test_health_is_right_while_any_key_is_accepted(void **state)
{
    struct domain *domains = rig.door.domains;
    begin();
    absence_note(&rig.door, &domains[1], AGX_ERROR_KEY, 0);
    assert_health(200, "ok");
    rig.uplinks[0].state = UPLINK_DOWN;
    of_carol[0].state = UPLINK_UP;
    absence_end(&rig.door, &domains[1]);
    absence_note(&rig.door, &domains[0], AGX_ERROR_KEY, 0);
    assert_health(200, "ok");
    rig_end();
}

/* Where one key is refused and no appliance is found with the other, the appliance is away. */
static void test_health_without_any_key_says_why(void **state)
{
    struct domain *domains = rig.door.domains;
    begin();
    rig.uplinks[0].state = UPLINK_DOWN;
    absence_note(&rig.door, &domains[0], AGX_ERROR_KEY, 0);
    absence_note(&rig.door, &domains[1], AGX_ERROR_KEY, 0);
    assert_health(503, "does not accept the key 'alice'");
    absence_note(&rig.door, &domains[1], AGX_ERROR_CONNECT, ECONNREFUSED);
    assert_health(503, "cannot connect: Connection refused");
    rig_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health_is_right_while_any_key_is_accepted),
        cmocka_unit_test(test_health_without_any_key_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
