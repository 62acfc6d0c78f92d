"""Other systems' runs, by scripts for environments of their own.

They lie apart so that Python, which looks for modules beside a script first, finds none of this project's there.
"""
