#include "chapters/04_zero/whole_matrices/whole_matrices.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "chapters/04_zero/whole_matrices/matrix_owners.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/optim/newton_schulz.hpp"

namespace ultra::zero {
namespace {

std::vector<std::size_t> costs_of(const std::vector<SharedMatrix>& matrices) {
  std::vector<std::size_t> costs;
  for (const SharedMatrix& matrix : matrices) {
    const Shape& whole = matrix.parameter->global_shape();
    costs.push_back(optim::newton_schulz_flops(whole[0], whole[1]));
  }
  return costs;
}

/// The numbers of matrices that are whole at the same time, so many of each owner.
std::vector<std::vector<std::size_t>> batches_of(const std::vector<std::size_t>& costs,
                                                 const std::vector<int>& owners,
                                                 std::size_t at_once) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t m) { return costs[m]; });
  std::map<int, std::size_t> taken;  // by owner
  std::vector<std::vector<std::size_t>> batches;
  for (const std::size_t m : order) {
    const std::size_t batch = at_once == 0 ? 0 : taken[owners[m]]++ / at_once;
    batches.resize(std::max(batches.size(), batch + 1));
    batches[batch].push_back(m);
  }
  for (std::vector<std::size_t>& batch : batches) std::ranges::sort(batch);
  return batches;
}

/// Takes out of a list the matrices that every rank has as a whole.
std::vector<SharedMatrix> take_those_of_all(std::vector<SharedMatrix>& matrices) {
  const auto others = std::ranges::stable_partition(
      matrices, [](const SharedMatrix& matrix) { return !matrix.parts.empty(); });
  std::vector<SharedMatrix> taken(others.begin(), others.end());
  matrices.erase(others.begin(), others.end());
  return taken;
}

/// Hands out a flat tensor piece by piece.
class Cutter {
 public:
  explicit Cutter(Tensor flat) : flat_(std::move(flat)) {}
  Tensor next(std::size_t count) {
    begin_ += count;
    return flat_.slice(0, {begin_ - count, begin_});
  }

 private:
  Tensor flat_;
  std::size_t begin_ = 0;
};

/// Memory for what travels.
Tensor buffer_of(const SharedMatrix& like, const std::vector<std::size_t>& counts) {
  std::size_t all = 0;
  for (const std::size_t count : counts) all += count;
  return Tensor::empty(like.parameter->device(), {all}, accumulation_dtype(like.parameter->dtype()),
                       MemoryCategory::kCommunication);
}

}  // namespace

std::size_t MatrixPart::numel() const {
  std::size_t count = 1;
  for (const Range& range : ranges) count *= range.size();
  return count;
}

Tensor MatrixPart::of(const Tensor& matrix) const {
  Tensor part = matrix.view(view);
  for (std::size_t d = 0; d < ranges.size(); ++d) part = part.slice(static_cast<int>(d), ranges[d]);
  return part;
}

WholeMatrices::WholeMatrices(std::vector<SharedMatrix> matrices, const Communicator& ranks,
                             const train::MakeWhole& within, std::size_t at_once)
    : matrices_(std::move(matrices)),
      here_(take_those_of_all(matrices_)),
      owners_(matrix_owners(costs_of(matrices_), ranks.size())),
      ranks_(ranks.labeled("whole matrices")) {
  for (std::vector<std::size_t>& numbers : batches_of(costs_of(matrices_), owners_, at_once)) {
    Batch batch{.matrices = std::move(numbers), .own = {}, .within = nullptr};
    std::vector<const nn::Parameter*> own;
    for (const std::size_t m : batch.matrices) {
      if (owners_[m] != ranks.rank()) continue;
      batch.own.push_back(m);
      own.push_back(matrices_[m].parameter);
    }
    if (within) batch.within = within(own);
    batches_.push_back(std::move(batch));
  }
}

// [region whole_matrices]
void WholeMatrices::transform(std::span<const Tensor> pieces,
                              const std::function<void(const Tensor& matrix)>& transform) {
  for (const SharedMatrix& matrix : here_) transform(pieces[matrix.piece].view(matrix.shape));
  for (const Batch& batch : batches_) {
    const std::vector<Tensor> own = gather(batch, pieces);
    if (batch.within) {
      batch.within->transform(own, transform);
    } else {
      for (const Tensor& matrix : own) transform(matrix);
    }
    send_back(batch, own, pieces);
  }
}

std::vector<Tensor> WholeMatrices::gather(const Batch& batch,
                                          std::span<const Tensor> pieces) const {
  const std::vector<std::size_t> mine = counts_of(batch, false);
  const std::vector<std::size_t> theirs = counts_of(batch, true);
  const Tensor sent = buffer_of(matrices_.front(), mine);
  Cutter send(sent);
  for (const Tensor& part : parts_here(batch, pieces)) send.next(part.numel()).copy_from(part);
  const Tensor received = buffer_of(matrices_.front(), theirs);
  ranks_.all_to_all_v(sent, mine, received, theirs).wait();
  std::vector<Tensor> own;
  for (const std::size_t m : batch.own) {
    own.push_back(Tensor::empty(received.device(), matrices_[m].shape, received.dtype()));
  }
  Cutter receive(received);
  for (const Tensor& part : parts_of(batch, own)) {
    part.copy_from(receive.next(part.numel()).view(part.shape()));
  }
  return own;
}
// [/region]

void WholeMatrices::send_back(const Batch& batch, const std::vector<Tensor>& own,
                              std::span<const Tensor> pieces) const {
  const std::vector<std::size_t> mine = counts_of(batch, false);
  const std::vector<std::size_t> theirs = counts_of(batch, true);
  const Tensor sent = buffer_of(matrices_.front(), theirs);
  Cutter send(sent);
  for (const Tensor& part : parts_of(batch, own)) {
    send.next(part.numel()).view(part.shape()).copy_from(part);
  }
  const Tensor received = buffer_of(matrices_.front(), mine);
  ranks_.all_to_all_v(sent, theirs, received, mine).wait();
  Cutter receive(received);
  for (const Tensor& part : parts_here(batch, pieces)) part.copy_from(receive.next(part.numel()));
}

/// This rank's parts, flat, in the order of their owners.
std::vector<Tensor> WholeMatrices::parts_here(const Batch& batch,
                                              std::span<const Tensor> pieces) const {
  std::vector<Tensor> parts;
  for (int owner = 0; owner < ranks_.size(); ++owner) {
    for (const std::size_t m : batch.matrices) {
      const auto& part = matrices_[m].parts.at(checked_cast<std::size_t>(ranks_.rank()));
      if (owners_[m] != owner || !part) continue;
      parts.push_back(pieces[matrices_[m].piece].view({part->numel()}));
    }
  }
  return parts;
}

/// The parts of the matrices that this rank owns, in the order of the ranks that have them.
std::vector<Tensor> WholeMatrices::parts_of(const Batch& batch,
                                            const std::vector<Tensor>& own) const {
  std::vector<Tensor> parts;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (std::size_t i = 0; i < batch.own.size(); ++i) {
      const auto& part = matrices_[batch.own[i]].parts.at(checked_cast<std::size_t>(rank));
      if (part) parts.push_back(part->of(own[i]));
    }
  }
  return parts;
}

/// Elements that travel between this rank and each other one: those of its own matrices, or its parts
/// of all.
std::vector<std::size_t> WholeMatrices::counts_of(const Batch& batch, bool own) const {
  std::vector<std::size_t> counts(checked_cast<std::size_t>(ranks_.size()), 0);
  for (const std::size_t m : batch.matrices) {
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      const auto& part = matrices_[m].parts[rank];
      if (!part) continue;
      const bool by_owner = owners_[m] == ranks_.rank();
      const bool from_here = rank == checked_cast<std::size_t>(ranks_.rank());
      if (own && by_owner) counts[rank] += part->numel();
      if (!own && from_here) counts[checked_cast<std::size_t>(owners_[m])] += part->numel();
    }
  }
  return counts;
}

std::vector<SharedMatrix> matrices_in(const std::vector<ParameterGroup>& groups,
                                      const Communicator& shards) {
  std::vector<SharedMatrix> matrices;
  std::size_t pieces = 0;  // of this rank, before those of a group
  const auto ranks = checked_cast<std::size_t>(shards.size());
  for (const ParameterGroup& group : groups) {
    std::vector<SharedMatrix> of_group;
    for (const nn::Parameter* parameter : group.parameters) {
      of_group.push_back({.parameter = parameter,
                          .shape = parameter->shape(),
                          .parts = std::vector<std::optional<MatrixPart>>(ranks)});
    }
    for (int rank = 0; rank < shards.size(); ++rank) {
      for (const Piece& piece : group.pieces(rank)) {
        SharedMatrix& matrix = of_group[piece.tensor];
        matrix.parts[checked_cast<std::size_t>(rank)] =
            MatrixPart{.view = {matrix.parameter->count()}, .ranges = {piece.elements}};
        if (rank == shards.rank()) matrix.piece = pieces++;
      }
    }
    for (SharedMatrix& matrix : of_group) {
      if (train::weight_kind(*matrix.parameter) != optim::WeightKind::kMatrix) continue;
      matrices.push_back(std::move(matrix));
    }
  }
  return matrices;
}

std::vector<SharedMatrix> split_matrices(const std::vector<const nn::Parameter*>& parameters,
                                         const Communicator& ranks) {
  std::vector<SharedMatrix> matrices;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p] == nullptr) continue;
    const Shape& whole = parameters[p]->global_shape();
    const Shape& own = parameters[p]->shape();
    SharedMatrix matrix{.parameter = parameters[p], .shape = whole, .parts = {}, .piece = p};
    for (std::size_t rank = 0; whole != own && rank < checked_cast<std::size_t>(ranks.size());
         ++rank) {
      MatrixPart part{.view = whole, .ranges = {}};
      for (int d = 0; d < 2; ++d) {
        // Neighbours have the same part, where there are more ranks than parts.
        const std::size_t copies =
            whole[d] == own[d] ? 1 : checked_cast<std::size_t>(ranks.size()) * own[d] / whole[d];
        const std::size_t begin = whole[d] == own[d] ? 0 : rank / copies * own[d];
        part.ranges.push_back({begin, begin + own[d]});
      }
      matrix.parts.emplace_back(std::move(part));
    }
    ensure(whole == own ||
               std::ranges::equal(matrix.parts[checked_cast<std::size_t>(ranks.rank())]->ranges,
                                  parameters[p]->shard()),
           "matrices are split evenly");
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

}  // namespace ultra::zero
