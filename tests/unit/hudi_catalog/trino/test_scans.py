from hudi_catalog.trino.batches import OpenScans


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_scan_is_open_until_all_splits_are_read() -> None:
    scans = OpenScans()
    scans.splits_returned("a", 2, all_returned=False)
    scans.page_served("a", is_last=True)
    scans.page_served("a", is_last=True)
    assert scans.count() == 1
    scans.splits_returned("a", 1, all_returned=True)
    scans.page_served("a", is_last=False)
    assert scans.count() == 1
    scans.page_served("a", is_last=True)
    assert scans.count() == 0
    scans.page_served("a", is_last=True)  # asked again after a reply was lost
    assert scans.count() == 0


def test_a_scan_that_nobody_asks_for_has_ended() -> None:
    clock = Clock()
    scans = OpenScans(5.0, clock=clock)
    scans.splits_returned("a", 10, all_returned=True)
    clock.now += 4
    scans.splits_returned("b", 10, all_returned=True)
    scans.page_served("a", is_last=False)
    clock.now += 4
    scans.page_served("a", is_last=False)
    assert scans.count() == 2
    clock.now += 2
    assert scans.count() == 1
    clock.now += 4
    assert scans.count() == 0


def test_scans_without_splits_are_over() -> None:
    scans = OpenScans()
    scans.splits_returned("a", 0, all_returned=True)
    assert scans.count() == 0


def test_what_is_followed_is_bounded() -> None:
    scans = OpenScans(limit=10)
    for number in range(100):
        scans.splits_returned(str(number), 1, all_returned=True)
    assert scans.count() == 10
