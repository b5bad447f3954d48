#include "chapters/02_collectives/algorithms/rabenseifner.hpp"

#include "chapters/02_collectives/algorithms/fold.hpp"
#include "chapters/02_collectives/halving_doubling.hpp"

namespace ultra::collectives {

comm::Lane rabenseifner_all_reduce(const comm::Group& group, Range range) {
  const Fold fold(group, range);
  comm::Lane lane = fold.in();
  if (fold.in_core()) {
    const comm::Group core = fold.core();
    comm::append(lane, halving_doubling_all_reduce(core, comm::Chunks::even(range, core.size())));
  }
  comm::append(lane, fold.out());
  return lane;
}

}  // namespace ultra::collectives
