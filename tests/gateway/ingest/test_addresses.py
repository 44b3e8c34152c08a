"""Which addresses are public unicast."""

import json
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path

import pytest

from gateway.ingest.addresses import is_never_open, is_public, parse_network

VECTORS = Path(__file__).parents[2] / "vectors"
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
    network = parse_network(block)
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
    allowed = (parse_network("10.1.0.0/16"), parse_network("fd00:1::/32"))
    assert is_public("10.1.2.3", allowed)
    assert is_public("fd00:1::5", allowed)
    assert not is_public("10.2.0.1", allowed)
    assert not is_public("fd00:2::5", allowed)
    assert not is_public("::ffff:10.1.2.3", allowed)


EVERYTHING = (parse_network("0.0.0.0/0"), parse_network("::/0"))
NEVER = [
    "0.0.0.0",
    "0.255.255.255",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.23",
    "169.254.42.42",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "192.0.0.192",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::10.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::10.0.0.1",
    "2001:0:7f00:1::",
    "2002:7f00:1::",
    "2606:4700::5efe:10.0.0.1",
    "fd00::5efe:10.0.0.1",
    "fd00:42::42",
    "fd00:ec2::23",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fd00::1%eth0",
    "ff02::1",
]


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_stay_closed_whatever_is_opened(address: str) -> None:
    assert not is_public(address, EVERYTHING)
    assert not is_public(address)


@pytest.mark.parametrize("address", ["10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00:1::5", "8.8.8.8"])
def test_the_addresses_of_intranets_can_be_opened(address: str) -> None:
    assert is_public(address, EVERYTHING)


@pytest.mark.parametrize("address", IP_FORMS)
def test_opening_a_range_opens_no_other_address(address: str) -> None:
    assert is_public(address, (parse_network("172.20.0.0/16"), parse_network("fd77::/16"))) is is_public(address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("169.254.169.254", True),
        ("127.0.0.0/8", True),
        ("224.0.0.0/4", True),
        ("::1", True),
        ("::ffff:10.0.0.0/104", True),
        ("fe80::/64", True),
        ("10.0.0.0/8", False),
        ("100.64.0.0/10", False),
        ("0.0.0.0/0", False),
        ("fd00::/8", False),
        ("::/0", False),
    ],
)
def test_a_range_that_opens_nothing_is_known_as_such(text: str, expected: bool) -> None:
    assert is_never_open(parse_network(text)) is expected


def test_a_network_may_be_written_with_host_bits() -> None:
    assert parse_network("10.1.2.3/16") == IPv4Network("10.1.0.0/16")
    assert parse_network("fd00::1/64") == IPv6Network("fd00::/64")
    assert ip_address("10.1.9.9") in parse_network("10.1.2.3/16")
