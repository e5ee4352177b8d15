"""The parts that all private kernel learners share: `fit`, the release, the saved model."""
