"""The model of the browser's measurements: see words.py."""

from bench.browser.sample_text import reply_to
from bench.scripted_model import main

if __name__ == "__main__":
    main(reply_to)
