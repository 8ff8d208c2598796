"""The fake model of the browser benchmarks; sample_text.py has its answers."""

from bench.browser.sample_text import reply_to
from bench.scripted_model import main

if __name__ == "__main__":
    main(reply_to)
