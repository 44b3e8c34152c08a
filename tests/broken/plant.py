"""A plugin of pytest: plants the fault that PLANT names, before the platform is imported."""

import os
import sys

from tests.broken.planting import Planted, faults_of

named = os.environ["PLANT"]
for fault in faults_of(named.split()[0]):
    if f"{fault.module} {fault.line} {fault.kind} {fault.before}" == named:
        sys.meta_path.insert(0, Planted(fault))
        break
else:
    raise SystemExit(f"there is no such fault: {named}")
