"""Gateways behind a real nginx, with a real Redis, that are killed and restarted while clients write."""

import pytest

from tests.faults.proof import rolling


@pytest.mark.timeout(900)
@pytest.mark.needs_command("nginx")
@pytest.mark.needs_command("redis-server")
def test_behind_nginx_no_kill_and_no_restart_costs_more_than_one_resend_or_a_write() -> None:
    assert rolling.run(full=False).failures == []
