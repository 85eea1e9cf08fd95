"""What PM keeps on disk: where it lies, how it is read and written."""
