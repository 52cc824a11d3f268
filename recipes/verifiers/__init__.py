"""Verifiers: one pure function per file, versioned by name.

One that only reads text says its verdict (exact_number.py is a good example); one whose answers
are code says what to run and what must come back (code_cases.py).
Once a finished run cites a Verifier its file is not edited; a changed rule is a new file.
"""
