"""How chains do a thing of which the platform does not do all. Steps see the platform only through a `StepContext`."""
