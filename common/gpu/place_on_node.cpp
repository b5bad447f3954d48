#include "common/gpu/place_on_node.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace ultra::gpu {

int place_on_node(int rank) {
  for (const char* const name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text = value;
    int place = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), place);
    if (error == std::errc() && end == text.data() + text.size() && place >= 0) return place;
  }
  return rank;
}

}  // namespace ultra::gpu
