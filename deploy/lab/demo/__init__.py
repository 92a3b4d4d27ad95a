"""The main job, shown whole: train, lose a GPU, save, requeue, resume, prove it."""
