"""The runs of one worker: start them, keep their leases, stop them from outside, recover those of dead workers."""
