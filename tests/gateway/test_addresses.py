"""Which addresses are public unicast."""

import json
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path

import pytest

from gateway.addresses import is_public, parsed_network

VECTORS = Path(__file__).parents[1] / "vectors"
IP_FORMS: list[str] = json.loads((VECTORS / "ip-forms.json").read_text(encoding="utf-8"))
PUBLIC = {"8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2606:4700:4700::1111"}


@pytest.mark.parametrize("address", IP_FORMS)
def test_only_plainly_public_addresses_are_public(address: str) -> None:
    assert is_public(address) is (address in PUBLIC)


def test_the_vectors_hold_public_addresses_too() -> None:
    assert set(IP_FORMS) >= PUBLIC


@pytest.mark.parametrize(
    "block",
    [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "::/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "4000::/2",
        "8000::/1",
    ],
)
def test_a_closed_block_is_closed_from_its_first_address_to_its_last(block: str) -> None:
    network = parsed_network(block)
    assert not is_public(str(network[0]))
    assert not is_public(str(network[-1]))


@pytest.mark.parametrize(
    "neighbour",
    [
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "168.63.129.17",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:200::",
        "2003::",
        "3ffe::1",
        "2a00:1450:4001::1",
    ],
)
def test_what_lies_beside_a_closed_block_is_open(neighbour: str) -> None:
    assert is_public(neighbour)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "8.8.8.8 ",
        "8.8.8",
        "8.8.8.8/32",
        "008.8.8.8",
        "0x08080808",
        "134744072",
        "localhost",
        "[::1]",
        "８.8.8.8",
    ],
)
def test_what_is_no_address_in_its_plain_form_is_not_public(text: str) -> None:
    assert not is_public(text)


@pytest.mark.parametrize("interface", ["0000:5efe", "0200:5efe"])
def test_a_public_prefix_that_tunnels_to_an_inner_address_is_not_public(interface: str) -> None:
    assert not is_public(f"2a00:1450:4001:1:{interface}:10.0.0.1")


def test_an_interface_on_a_public_address_is_not_public() -> None:
    assert is_public("2606:4700:4700::1111")
    assert not is_public("2606:4700:4700::1111%eth0")


def test_an_intranet_range_can_be_opened_on_purpose_and_opens_nothing_else() -> None:
    allowed = (parsed_network("10.1.0.0/16"), parsed_network("fd00:1::/32"))
    assert is_public("10.1.2.3", allowed)
    assert is_public("fd00:1::5", allowed)
    assert not is_public("10.2.0.1", allowed)
    assert not is_public("fd00:2::5", allowed)
    assert not is_public("::ffff:10.1.2.3", allowed)


def test_a_network_may_be_written_with_host_bits() -> None:
    assert parsed_network("10.1.2.3/16") == IPv4Network("10.1.0.0/16")
    assert parsed_network("fd00::1/64") == IPv6Network("fd00::/64")
    assert ip_address("10.1.9.9") in parsed_network("10.1.2.3/16")
