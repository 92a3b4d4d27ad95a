"""The main job, shown whole: train, lose a GPU, save, requeue, get a spare, resume, prove it."""
