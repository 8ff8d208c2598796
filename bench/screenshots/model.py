"""The fake model of the screenshots: `python -m bench.screenshots.model --port 18081`. sample_chats.py has its answers."""

from bench.screenshots.sample_chats import reply_to
from bench.scripted_model import main

if __name__ == "__main__":
    main(reply_to)
