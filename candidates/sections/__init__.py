"""The sections of a descriptor, a module for each subject."""
