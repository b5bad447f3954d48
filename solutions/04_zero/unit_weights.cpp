#include "chapters/04_zero/unit_weights.hpp"

#include "common/base/errors.hpp"

namespace ultra::zero {

// [region start_gather]
void UnitWeights::start_gather() {
  ensure(!whole_.defined(), "a unit is gathered after it was released");
  whole_ = group_.flat(group_.layout.padded, MemoryCategory::kCommunication);
  gather_ = shards_.all_gather(shard_, whole_);
}
// [/region]

// [region wait]
void UnitWeights::wait() {
  ensure(whole_.defined(), "start_gather() comes before wait()");
  gather_.wait();  // or the pass would read weights that have not arrived
  for (std::size_t i = 0; i < group_.parameters.size(); ++i) {
    group_.parameters[i]->set_value(group_.view(whole_, i));
  }
}
// [/region]

// [region release]
void UnitWeights::release() {
  ensure(whole_.defined(), "a unit that is released was gathered");
  for (nn::Parameter* parameter : group_.parameters) parameter->drop_value();
  whole_ = Tensor();
}
// [/region]

}  // namespace ultra::zero
