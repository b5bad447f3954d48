#include "common/comm/mesh.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"

namespace ultra {
namespace {

// From the outermost to the innermost: ranks count up along tp first.
constexpr MeshDim kGridDims[] = {MeshDim::kDp, MeshDim::kPp, MeshDim::kCp, MeshDim::kTp};
constexpr MeshDim kExpertDims[] = {MeshDim::kEdp, MeshDim::kEp};
constexpr std::int64_t kMostRanks = 1 << 20;

constexpr unsigned bit(MeshDim dim) { return 1U << static_cast<unsigned>(dim); }

constexpr unsigned kExpertBits = bit(MeshDim::kEp) | bit(MeshDim::kEdp);

std::string name_of(unsigned dims) {
  std::string name;
  for (const auto& all : {std::vector<MeshDim>(std::begin(kGridDims), std::end(kGridDims)),
                          std::vector<MeshDim>(std::begin(kExpertDims), std::end(kExpertDims))}) {
    for (const MeshDim dim : all) {
      if ((dims & bit(dim)) == 0) continue;
      name += fmt::format("{}{}", name.empty() ? "" : "*", to_string(dim));
    }
  }
  return name;
}

/// A number that ranks share exactly when they differ along `dims` only.
int color_of(const MeshShape& shape, const MeshCoordinates& at, unsigned dims) {
  int color = 0;
  if ((dims & kExpertBits) != 0) {
    // The group lies inside one plane of equal pp and tp.
    const MeshDim other = (dims & bit(MeshDim::kEp)) != 0 ? MeshDim::kEdp : MeshDim::kEp;
    color = at.along(other);
    for (const MeshDim dim : {MeshDim::kPp, MeshDim::kTp}) {
      color = color * shape.size(dim) + at.along(dim);
    }
    return color;
  }
  for (const MeshDim dim : kGridDims) {
    if ((dims & bit(dim)) == 0) color = color * shape.size(dim) + at.along(dim);
  }
  return color;
}

/// The dimensions of `dims` along which there is more than one rank.
unsigned that_matter(const MeshShape& shape, unsigned dims) {
  unsigned result = 0;
  for (unsigned d = 0; d <= static_cast<unsigned>(MeshDim::kEdp); ++d) {
    const auto dim = static_cast<MeshDim>(d);
    if ((dims & bit(dim)) != 0 && shape.size(dim) > 1) result |= bit(dim);
  }
  return result;
}

}  // namespace

std::string_view to_string(MeshDim dim) {
  constexpr std::string_view kNames[] = {"dp", "pp", "cp", "tp", "ep", "edp"};
  return kNames[static_cast<int>(dim)];
}

int MeshShape::world_size() const {
  std::int64_t product = 1;
  for (const auto& [name, size] :
       {std::pair{"dp", dp}, {"pp", pp}, {"cp", cp}, {"ep", ep}, {"tp", tp}}) {
    if (size < 1) throw ConfigError(fmt::format("{} is {}. It must be at least 1.", name, size));
    if (size > kMostRanks) throw ConfigError(fmt::format("{} is {}: too many ranks", name, size));
  }
  for (const int size : {dp, pp, cp, tp}) {
    product *= size;
    if (product > kMostRanks) throw ConfigError(fmt::format("{}: too many ranks", str()));
  }
  if (dp * cp % ep != 0) {
    throw ConfigError(
        fmt::format("ep must divide dp * cp: {} * {} % {} = {}. Choose a divisor of {}.", dp, cp,
                    ep, dp * cp % ep, dp * cp));
  }
  return static_cast<int>(product);
}

int MeshShape::size(MeshDim dim) const {
  switch (dim) {
    case MeshDim::kDp:
      return dp;
    case MeshDim::kPp:
      return pp;
    case MeshDim::kCp:
      return cp;
    case MeshDim::kTp:
      return tp;
    case MeshDim::kEp:
      return ep;
    case MeshDim::kEdp:
      return dp * cp / ep;
  }
  return 1;
}

void MeshShape::set(MeshDim dim, int ranks) {
  int* const sizes[] = {&dp, &pp, &cp, &tp, &ep};
  ensure(dim != MeshDim::kEdp, "edp follows from the others");
  *sizes[static_cast<int>(dim)] = ranks;
}

std::string MeshShape::str() const {
  return fmt::format("dp {} * pp {} * cp {} * tp {}", dp, pp, cp, tp);
}

int MeshCoordinates::along(MeshDim dim) const {
  const int positions[] = {dp, pp, cp, tp, ep, edp};
  return positions[static_cast<int>(dim)];
}

MeshCoordinates coordinates_of(const MeshShape& shape, int world_rank) {
  MeshCoordinates at;
  at.tp = world_rank % shape.tp;
  at.cp = world_rank / shape.tp % shape.cp;
  at.pp = world_rank / (shape.tp * shape.cp) % shape.pp;
  at.dp = world_rank / (shape.tp * shape.cp * shape.pp);
  const int within = at.dp * shape.cp + at.cp;  // of the ranks with the same pp and tp
  at.ep = within % shape.ep;
  at.edp = within / shape.ep;
  return at;
}

Mesh::Mesh(const Communicator& world, const MeshShape& shape)
    : world_(world), shape_(shape), coordinates_(coordinates_of(shape, world.rank())) {
  if (shape.world_size() != world.size()) {
    throw ConfigError(
        fmt::format("{} = {} ranks, but the world has {}. Their product must be the "
                    "number of ranks.",
                    shape.str(), shape.world_size(), world.size()));
  }
  const auto join = [&](unsigned dims) {
    if (groups_.contains(dims)) return;
    groups_.emplace(dims,
                    world.split(color_of(shape, coordinates_, dims), world.rank(), name_of(dims)));
  };
  // Every product at once: a group made later would have to be made by all ranks at that time.
  for (unsigned dims = 0; dims < bit(MeshDim::kEp); ++dims) {
    if (that_matter(shape, dims) == dims) join(dims);
  }
  for (const MeshDim dim : kExpertDims) {
    if (shape.size(dim) > 1) join(bit(dim));
  }
}

const Communicator& Mesh::group(std::initializer_list<MeshDim> dims) const {
  unsigned set = 0;
  for (const MeshDim dim : dims) set |= bit(dim);
  if ((set & kExpertBits) != 0 && dims.size() > 1) {
    throw ConfigError(fmt::format(
        "the mesh has no group '{}': ep and edp re-factor dp x cp and stand alone", name_of(set)));
  }
  return groups_.at(that_matter(shape_, set));
}

}  // namespace ultra
