"""Sandboxes: model-written code in Docker containers, judged from outside."""
