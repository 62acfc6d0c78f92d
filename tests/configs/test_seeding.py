"""Seeds of roles."""

from configs.seeding import derive_seed


def test_seeds_of_roles_differ_and_repeat():
  seeds = {derive_seed(7, role, index) for role in ("actor", "learner", "evaluator") for index in range(50)}
  assert len(seeds) == 150
  assert derive_seed(7, "actor", 3) == derive_seed(7, "actor", 3)
  assert derive_seed(8, "actor", 3) != derive_seed(7, "actor", 3)
