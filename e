brains-gateway: BRAINS_REDIS_URL must be an address such as redis://127.0.0.1:6379/0.
