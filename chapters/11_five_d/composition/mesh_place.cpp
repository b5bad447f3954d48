#include "chapters/11_five_d/composition/mesh_place.hpp"

namespace ultra::five_d {

MeshPlace place_of(const train::Setup& setup, std::size_t rank) {
  const std::size_t tp = setup.ranks_along(MeshDim::kTp);
  const std::size_t cp = setup.ranks_along(MeshDim::kCp);
  const std::size_t pp = setup.ranks_along(MeshDim::kPp);
  return {.replica = rank / (tp * cp * pp),
          .stage = rank / (tp * cp) % pp,
          .context = rank / tp % cp,
          .tensor = rank % tp};
}

}  // namespace ultra::five_d
