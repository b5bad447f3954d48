// Sums over sites, and their names in Nsight Compute.

#include "kernels/simt/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <tuple>

namespace ultra::simt {
namespace {

constexpr double kBytesPerSector = 32;

double ratio(std::uint64_t sum, std::uint64_t count) {
  return count == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(count);
}

void add_to(Site& sum, const Site& site) {
  sum.requests += site.requests;
  sum.lanes += site.lanes;
  sum.sectors += site.sectors;
  sum.bytes += site.bytes;
  sum.wavefronts += site.wavefronts;
  sum.ideal_wavefronts += site.ideal_wavefronts;
  sum.divergent += site.divergent;
}

bool is_before(const Site& left, const Site& right) {
  return std::tie(left.file, left.line, left.kind, left.size) <
         std::tie(right.file, right.line, right.kind, right.size);
}

using Metrics = std::vector<std::pair<std::string, double>>;

void add_global(Metrics& metrics, const char* operation, const Site& sum) {
  const auto sectors = static_cast<double>(sum.sectors);
  const std::string suffix = fmt::format("pipe_lsu_mem_global_op_{}", operation);
  metrics.emplace_back("l1tex__t_requests_" + suffix + ".sum", static_cast<double>(sum.requests));
  metrics.emplace_back("l1tex__t_sectors_" + suffix + ".sum", sectors);
  metrics.emplace_back("l1tex__t_bytes_" + suffix + ".sum", sectors * kBytesPerSector);
  metrics.emplace_back("l1tex__average_t_sectors_per_request_" + suffix + ".ratio",
                       sum.sectors_per_request());
}

void add_shared(Metrics& metrics, const char* operation, const Site& sum) {
  metrics.emplace_back(fmt::format("smsp__inst_executed_op_shared_{}.sum", operation),
                       static_cast<double>(sum.requests));
  metrics.emplace_back(
      fmt::format("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum", operation),
      static_cast<double>(sum.wavefronts));
  metrics.emplace_back(
      fmt::format("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum", operation),
      static_cast<double>(sum.wavefronts - sum.ideal_wavefronts));
}

}  // namespace

const char* name_of(AccessKind kind) {
  static constexpr std::array kNames{"global load", "global store", "global atomic",
                                     "shared load", "shared store", "shared atomic",
                                     "branch"};
  return kNames.at(static_cast<std::size_t>(kind));
}

double Site::sectors_per_request() const { return ratio(sectors, requests); }
double Site::wavefronts_per_request() const { return ratio(wavefronts, requests); }
double Site::lanes_per_request() const { return ratio(lanes, requests); }

void Report::add(const Launched& launched, const std::vector<Site>& counted) {
  launches.push_back(launched);
  for (const Site& site : counted) {
    const auto place = std::ranges::lower_bound(sites, site, is_before);
    if (place != sites.end() && !is_before(site, *place)) {
      add_to(*place, site);
    } else {
      sites.insert(place, site);
    }
  }
}

Site Report::total(AccessKind kind) const {
  Site sum{.kind = kind};
  for (const Site& site : sites) {
    if (site.kind == kind) {
      add_to(sum, site);
    }
  }
  return sum;
}

Site Report::at_line(int line) const {
  Site sum;
  for (const Site& site : sites) {
    if (site.line == line) {
      if (sum.requests == 0) {
        sum = Site{.file = site.file, .line = line, .kind = site.kind, .size = site.size};
      }
      add_to(sum, site);
    }
  }
  return sum;
}

double Report::active_lanes() const {
  Site sum;
  for (const Site& site : sites) {
    add_to(sum, site);
  }
  return sum.lanes_per_request();
}

std::vector<std::pair<std::string, double>> Report::metrics() const {
  Metrics result;
  add_global(result, "ld", total(AccessKind::kGlobalLoad));
  add_global(result, "st", total(AccessKind::kGlobalStore));
  add_global(result, "atom", total(AccessKind::kGlobalAtomic));
  add_shared(result, "ld", total(AccessKind::kSharedLoad));
  add_shared(result, "st", total(AccessKind::kSharedStore));
  add_shared(result, "atom", total(AccessKind::kSharedAtomic));
  const Site branches = total(AccessKind::kBranch);
  result.emplace_back("smsp__sass_branch_targets.sum", static_cast<double>(branches.requests));
  result.emplace_back("smsp__sass_branch_targets_threads_divergent.sum",
                      static_cast<double>(branches.divergent));
  result.emplace_back("smsp__thread_inst_executed_per_inst_executed.ratio", active_lanes());
  return result;
}

double Report::metric(const std::string& name) const {
  for (const auto& [known, value] : metrics()) {
    if (known == name) {
      return value;
    }
  }
  throw std::out_of_range("there is no metric " + name + " in a report");
}

std::string to_table(const Report& report) {
  std::string table =
      fmt::format("{:<44} {:<13} {:>4} {:>9} {:>6} {:>13} {:>16} {:>9}\n", "line", "kind", "size",
                  "requests", "lanes", "sectors/req", "wavefronts/req", "divergent");
  for (const Site& site : report.sites) {
    table += fmt::format("{:<44} {:<13} {:>4} {:>9} {:>6.1f} {:>13.2f} {:>16.2f} {:>9}\n",
                         fmt::format("{}:{}", site.file, site.line), name_of(site.kind), site.size,
                         site.requests, site.lanes_per_request(), site.sectors_per_request(),
                         site.wavefronts_per_request(), site.divergent);
  }
  return table;
}

}  // namespace ultra::simt
