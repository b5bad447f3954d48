#include "chapters/05_tensor_sequence_parallel/tensor_parallel_program.hpp"

#include <utility>

#include "chapters/03_data_parallel/communication_table.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_estimate.hpp"
#include "chapters/05_tensor_sequence_parallel/estimate/tensor_parallel_table.hpp"
#include "chapters/05_tensor_sequence_parallel/partial_gradients.hpp"
#include "chapters/05_tensor_sequence_parallel/shapes/split_shapes.hpp"
#include "common/base/numeric.hpp"

namespace ultra::tensor_parallel {

std::vector<Communicator> copy_groups(const Communicator& tp, std::size_t num_kv_heads) {
  std::vector<Communicator> groups = {tp};
  const TensorParallelLayout layout{.tp = tp.size()};
  const auto copies = checked_cast<int>(layout.kv_copies(num_kv_heads));
  if (copies > 1 && copies < tp.size()) {
    groups.push_back(tp.split(tp.rank() / copies, tp.rank(), "kv copies"));
  }
  return groups;
}

// [region replica_ranks]
data_parallel::ReplicaRanks replica_ranks(const Mesh& mesh, std::size_t num_kv_heads, int shards) {
  if (mesh.shape().tp == 1) return data_parallel::ReplicaRanks::whole(mesh.world());
  // One copy of the gradient: the tp ranks, times the replicas that share each part's states.
  const int copy = mesh.coordinates().dp / shards;
  const Communicator one_copy = mesh.world().split(copy, mesh.world().rank(), "one copy");
  const auto groups = copy_groups(mesh.tp(), num_kv_heads);
  return {.world = mesh.world(),
          .dp = mesh.dp(),
          .finish_gradients = [groups, one_copy](std::span<const train::GradientPiece> pieces) {
            sum_partial_gradients(pieces, groups);
            return norm_over_ranks(pieces, one_copy);
          }};
}
// [/region]

void TensorParallelProgram::add_to(CLI::App& app) {
  base.add_to(app);
  tensor_parallel.add_to(app);
  scaling.add_to(app);
}

void TensorParallelProgram::validate() {
  tensor_parallel.validate(base.base.servers.num_servers());
  base.base.replica = tensor_parallel.replica();
  base.validate();
  scaling.validate();
}

void TensorParallelProgram::validate_training() const {
  base.base.validate_training();
  if (tensor_parallel.splits()) tensor_parallel.layout().validate(base.base.train.model);
}

train::ExtraConfig TensorParallelProgram::config() const {
  return train::joined({base.config(), tensor_parallel.config()});
}

std::string TensorParallelProgram::estimate() const {
  if (!tensor_parallel.splits()) return base.estimate();
  const auto replicas = checked_cast<int>(base.base.data_parallel.dp.value_or(1));
  return answer(base.base.memory, base.base.train, tensor_parallel.layout(),
                base.zero.sharding(replicas));
}

std::string TensorParallelProgram::shapes() const {
  const nn::ModelConfig& model = base.base.train.model;
  const memory::MicroBatch batch{.size = base.base.train.micro_batch, .seq_len = model.max_seq_len};
  return describe_shapes(tensor_parallel.shapes, model, batch, tensor_parallel.layout());
}

MeshShape TensorParallelProgram::mesh_shape() const {
  return {.dp = base.base.replicas(), .tp = checked_cast<int>(tensor_parallel.tp)};
}

train::TrainResult TensorParallelProgram::train_on(const Communicator& world,
                                                   nn::LayerFactory& factory,
                                                   const train::ExtraConfig& extra_config) const {
  if (!tensor_parallel.splits()) {
    return base.train_on(data_parallel::ReplicaRanks::whole(world), factory, extra_config);
  }
  const Mesh mesh(world, mesh_shape());
  TensorParallelFactory split(factory, mesh.tp(), tensor_parallel.sequence_parallel,
                              tensor_parallel.overlap);
  const int shards = base.zero.shards() ? base.zero.sharding(mesh.shape().dp).shards : 1;
  return base.train_on(replica_ranks(mesh, base.base.train.model.num_kv_heads, shards), split,
                       extra_config);
}

std::string TensorParallelProgram::tables(const train::TrainResult& result) const {
  if (!tensor_parallel.splits()) return base.tables(result);
  if (result.steps_made() == 0) return {};
  return format_tensor_parallel_table(base, tensor_parallel, result) +
         data_parallel::format_communication_table(result);
}

}  // namespace ultra::tensor_parallel
