"""What all tests of the suite itself need."""

import signal

# A shell starts its background jobs with SIGINT ignored, and what they start inherits that. Tests send SIGINT to what
# they start: with a handler here it is at its default there.
signal.signal(signal.SIGINT, signal.default_int_handler)
