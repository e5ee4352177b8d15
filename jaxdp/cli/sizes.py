"""Refuses, before anything is allocated, sizes that can only be a slip of the keyboard."""

import math

# Of one array: 8 GiB in float32.
_MOST_NUMBERS = 2**31


def check_sizes(**sizes: tuple[int, ...]) -> None:
    """Raise ValueError where an array would have more numbers than is ever meant.

    Args:
        sizes: of each array that will be made; the keyword's words tell what it holds.
    """
    for name, shape in sizes.items():
        if math.prod(shape) >= _MOST_NUMBERS:
            raise ValueError(
                f"expected fewer than 2^31 numbers in {name.replace('_', ' ')}, got "
                f"{' * '.join(map(str, shape))}"
            )


def check_steps(num_steps: int, flag: str = "--num-steps") -> None:
    """Raise ValueError where a loop would be longer than its counter."""
    if num_steps >= 2**31:
        raise ValueError(f"expected {flag} < 2^31, got {num_steps}")
