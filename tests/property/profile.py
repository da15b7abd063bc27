"""How many examples: few by default, many with HYPOTHESIS_PROFILE=thorough."""

from hypothesis import settings

_TIMES = {"thorough": 10}


def examples(count: int) -> settings:
    """Settings for a test whose examples are costly: so many of them, in the thorough profile a multiple."""
    return settings(max_examples=count * _TIMES.get(settings.get_current_profile_name(), 1))
