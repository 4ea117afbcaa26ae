"""What all tests of the suite itself need."""

import signal

# A shell starts its background jobs with SIGINT ignored, nohup starts them with SIGHUP ignored, and what they start
# inherits that. Tests send these signals to what they start: with a handler here they are at their default there.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
