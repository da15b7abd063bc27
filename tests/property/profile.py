"""Number of examples: few by default, many with HYPOTHESIS_PROFILE=thorough, very many with nightly."""

from hypothesis import settings

_TIMES = {"thorough": 15, "nightly": 60}
#: Of a write's changes that publish nothing, each meets every kind of fault only where there is time; else it takes
#: turns with as many others.
STRIDE = 1 if settings.get_current_profile_name() in _TIMES else 5
#: For tests of what every plan rests on: 300 examples by default, 20,000 in the nightly profile.
MANY = settings(max_examples=max(300, settings.default.max_examples))


def examples(count: int) -> settings:
    """Settings for a test whose examples are costly: so many of them, in the larger profiles a multiple."""
    return settings(max_examples=count * _TIMES.get(settings.get_current_profile_name(), 1))
