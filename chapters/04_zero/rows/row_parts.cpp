#include "chapters/04_zero/rows/row_parts.hpp"

#include <utility>

#include "chapters/04_zero/shards/shard_groups.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/work.hpp"

namespace ultra::zero {
namespace {

/// Where a tensor stands among whole ones, with its padding.
Range padded_place(const FlatLayout& layout, std::size_t tensor) {
  const bool is_last = tensor + 1 == layout.places.size();
  return {layout.places[tensor].begin, is_last ? layout.padded : layout.places[tensor + 1].begin};
}

void fill_padding(const FlatLayout& layout, const Tensor& whole) {
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    const Range padding{layout.places[i].end, padded_place(layout, i).end};
    if (padding.size() > 0) whole.slice(0, padding).fill(0.0);
  }
}

// [region copies]
/// Calls visit(shards, whole) for each tensor with its rows in an array that stands rank by rank and
/// in one that stands tensor by tensor: both [ranks, elements of its part of a shard].
template <class Visit>
void for_each_tensor(const ParameterGroup& group, const Tensor& by_rank, const Tensor& by_tensor,
                     const Visit& visit) {
  const auto ranks = checked_cast<std::size_t>(group.ranks);
  const Tensor shards = by_rank.view({ranks, group.layout.shard});
  for (std::size_t i = 0; i < group.layout.places.size(); ++i) {
    const Range whole = padded_place(group.layout, i);
    visit(shards.slice(1, {whole.begin / ranks, whole.end / ranks}),
          by_tensor.slice(0, whole).view({ranks, whole.size() / ranks}));
  }
}
// [/region]

// [region row_unit]
class RowUnit final : public ShardedUnit {
 public:
  RowUnit(ParameterGroup group, const Communicator& shards, std::optional<DType> travels)
      : group_(std::move(group)),
        shards_(shards.labeled("gather " + group_.name)),
        travels_(travels.value_or(group_.parameters.front()->dtype())),
        shard_(group_.flat(group_.layout.shard, MemoryCategory::kParameters)) {
    group_.initialize(shard_, shards.rank());
  }

  Tensor piece(std::size_t /*piece*/, const Range& place) const override {
    return shard_.slice(0, place);
  }

  // [region start_gather]
  void start_gather() override {
    ensure(!gathered_.defined() && !whole_.defined(), "a unit is gathered after it was released");
    gathered_ = whole_unit();
    if (travels_ == shard_.dtype()) {
      gather_ = shards_.all_gather(shard_, gathered_);
      return;
    }
    const Tensor own = own_shard(gathered_, shards_);
    cast_into(own, shard_);
    gather_ = shards_.all_gather(own, gathered_);
  }
  // [/region]

  void wait() override {
    if (whole_.defined()) return;
    ensure(gathered_.defined(), "start_gather() comes before wait()");
    gather_.wait();
    gather_ = Work();  // or its handle would keep what is gathered
    whole_ = whole_unit();
    for_each_tensor(group_, gathered_, whole_,
                    [](const Tensor& shards, const Tensor& whole) { whole.copy_from(shards); });
    gathered_ = Tensor();
    whole_ = cast(whole_, shard_.dtype(), MemoryCategory::kCommunication);
    for (std::size_t i = 0; i < group_.parameters.size(); ++i) {
      group_.parameters[i]->set_value(group_.view(whole_, i));
    }
  }

  void release() override {
    ensure(whole_.defined(), "a unit that is released was gathered");
    for (nn::Parameter* parameter : group_.parameters) parameter->drop_value();
    whole_ = Tensor();
  }

 private:
  [[nodiscard]] Tensor whole_unit() const {
    return Tensor::empty(shard_.device(), {group_.layout.padded}, travels_,
                         MemoryCategory::kCommunication);
  }

  ParameterGroup group_;
  Communicator shards_;  // labelled with the unit
  DType travels_;        // what is gathered
  Tensor shard_;
  Tensor gathered_;  // [padded] rank by rank; undefined: not under way
  Tensor whole_;     // [padded] tensor by tensor; undefined: released
  Work gather_;
};
// [/region]

class RowReducer final : public GroupReducer {
 public:
  RowReducer(std::unique_ptr<GroupReducer> reducer, std::vector<ParameterGroup> groups)
      : reducer_(std::move(reducer)), groups_(std::move(groups)) {}

  Tensor open(std::size_t group) override {
    const nn::Parameter& first = *groups_[group].parameters.front();
    open_ = Tensor::empty(first.device(), {groups_[group].layout.padded}, first.grad_dtype(),
                          MemoryCategory::kCommunication);
    fill_padding(groups_[group].layout, open_);
    return open_;
  }

  void flush(std::size_t group) override {
    const Tensor whole = std::exchange(open_, Tensor());
    for_each_tensor(groups_[group], reducer_->open(group), whole,
                    [](const Tensor& shards, const Tensor& own) { shards.copy_from(own); });
    reducer_->flush(group);
  }

  void finish() override { reducer_->finish(); }
  const Tensor& shard(std::size_t group) const override { return reducer_->shard(group); }
  void drop() override { reducer_->drop(); }

 private:
  std::unique_ptr<GroupReducer> reducer_;
  std::vector<ParameterGroup> groups_;
  Tensor open_;  // the memory of the group that fills up
};

}  // namespace

std::unique_ptr<ShardedUnit> row_unit(ParameterGroup group, const Communicator& shards,
                                      std::optional<DType> travels) {
  return std::make_unique<RowUnit>(std::move(group), shards, travels);
}

std::unique_ptr<GroupReducer> row_reducer(std::unique_ptr<GroupReducer> reducer,
                                          std::vector<ParameterGroup> groups) {
  return std::make_unique<RowReducer>(std::move(reducer), std::move(groups));
}

}  // namespace ultra::zero
