#include "chapters/11_five_d/composition/mesh_place.hpp"

#include "chapters/05_tensor_sequence_parallel/tensor_parallel.hpp"
#include "chapters/06_context_parallel/context_parallel.hpp"
#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
namespace ultra::five_d {

MeshPlace place_of(const train::Setup& setup, std::size_t rank) {
  const std::size_t tp = setup.ranks_along(tensor_parallel::kAxis);
  const std::size_t cp = setup.ranks_along(context_parallel::kAxis);
  const std::size_t pp = setup.ranks_along(pipeline_parallel::kAxis);
  return {.replica = rank / (tp * cp * pp),
          .stage = rank / (tp * cp) % pp,
          .context = rank / tp % cp,
          .tensor = rank % tp};
}

}  // namespace ultra::five_d
