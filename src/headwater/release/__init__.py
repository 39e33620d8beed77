"""What may be published: releases, and folders of them."""
