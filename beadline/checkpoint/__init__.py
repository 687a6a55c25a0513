"""Checkpoints: when they are taken, what they hold, where they are kept, and what follows a failure.

===============  ======================================================================
``coordinator``  when checkpoints are taken, and what becomes of each
``contents``     what one holds, and its forms
``ownership``    which driver may write them
``directory``    which jobs and checkpoints a directory has
``storage``      where they are kept, and which files they share
``cleanup``      what goes when nobody needs it any more
``settings``     what the options under ``execution.checkpointing`` say
``restart``      what follows a failure
``ends``         what can end a job, and what that means for its checkpoints
===============  ======================================================================
"""
