"""Private kernel learning: kernels, feature maps, and learners whose release is a function."""
