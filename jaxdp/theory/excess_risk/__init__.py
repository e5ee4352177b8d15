"""What privacy costs in over-parameterised models: a bound, its assumptions, and its proof."""
