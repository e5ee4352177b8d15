"""What all private kernel learners share: one `fit`, its checks, the release, the saved model."""
