"""The model of the pictures: `python -m bench.screenshots.model --port 18081`. What it says is in story.py."""

from bench.screenshots.sample_chats import reply_to
from bench.scripted_model import main

if __name__ == "__main__":
    main(reply_to)
