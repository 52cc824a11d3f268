"""Verifiers that only read text: one pure function per file, versioned by name.

Once a finished run cites a Verifier its file is not edited; a changed rule is a new file.
"""
