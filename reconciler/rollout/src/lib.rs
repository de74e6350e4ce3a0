//! Plans, stages, gates and the step function of a rollout.
