"""The model of the browser's measurements: see words.py."""

from bench.browser.words import reply_to
from bench.told_model import main

if __name__ == "__main__":
    main(reply_to)
