"""How chains fulfil an operation where the platform does not do all of it. Steps speak to a `StepContext` alone."""
