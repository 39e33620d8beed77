"""What reads records or draws noise. Nothing in `headwater.public` imports it."""
