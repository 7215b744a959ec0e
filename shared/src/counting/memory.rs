//! Which taps have been seen, per client and page, in the last two to three minutes of log time.
