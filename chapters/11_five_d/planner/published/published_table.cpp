#include "chapters/11_five_d/planner/published/published_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/base/interrupt.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

std::string_view kind_of(const PublishedRow& row) {
  if (row.fitted) return "fitted";
  return row.in_reference ? "" : "hold-out, from memory";
}

std::string line_of(const ComparedRow& compared) {
  const PublishedRow& row = compared.row;
  std::string line = fmt::format("| {} | {} | {} | {} |", row.id, row.layout.gpus(),
                                 compared.prediction.layout.str(), kind_of(row));
  line += fmt::format(" {:.4g} {} | {:.4g} | {:.2f} |", row.speed, unit_of(row), compared.predicted,
                      compared.speed_ratio);
  if (!row.memory_bytes) return line + " | | |\n";
  return line + fmt::format(" {:.1f} GB | {:.1f} GB | {:.2f} |\n", *row.memory_bytes / kGB,
                            compared.prediction.memory.tensors() / kGB, compared.memory_ratio);
}

using Groups = std::map<std::string, std::vector<const ComparedRow*>>;

Groups groups_of(const std::vector<ComparedRow>& rows) {
  Groups groups;
  for (const ComparedRow& row : rows) groups[row.row.group].push_back(&row);
  return groups;
}

/// Ratios of the rows that nothing was fitted on.
std::vector<double> free_ratios(const std::vector<const ComparedRow*>& rows) {
  std::vector<double> ratios;
  for (const ComparedRow* row : rows) {
    if (!row->row.fitted && row->row.unit) ratios.push_back(row->speed_ratio);
  }
  return ratios;
}

std::vector<double> memory_ratios(const std::vector<const ComparedRow*>& rows) {
  std::vector<double> ratios;
  for (const ComparedRow* row : rows) {
    if (row->row.memory_bytes) ratios.push_back(row->memory_ratio);
  }
  return ratios;
}

std::vector<const ComparedRow*> pointers(const std::vector<ComparedRow>& rows, bool in_reference) {
  std::vector<const ComparedRow*> all;
  for (const ComparedRow& row : rows) {
    if (row.row.in_reference == in_reference) all.push_back(&row);
  }
  return all;
}

std::string summary_line(std::string_view what, const std::vector<const ComparedRow*>& rows) {
  const std::vector<double> ratios = free_ratios(rows);
  const std::vector<double> bytes = memory_ratios(rows);
  const auto cell = [](const std::vector<double>& values) {
    return values.empty() ? std::string("-")
                          : fmt::format("{:.1f} %", kPercent * median_error(values));
  };
  return fmt::format("| {} | {} | {} | {} | {} |\n", what, ratios.size(), cell(ratios),
                     bytes.size(), cell(bytes));
}

/// Numbers of a GPU type: the fitted ones, and those that were taken from elsewhere.
std::string constants() {
  std::string text =
      "| cluster | products | memory | network | flash attention | between kernels | in a node |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const char* name : {"dgx-a100", "h100-efa", "dgx-h100", "h800"}) {
    const replay::Cluster& cluster = *replay::find_cluster(name);
    const replay::GpuType& gpu = cluster.gpu;
    text +=
        fmt::format("| {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {:.0f} us | {:.0f} GB/s |\n", name,
                    gpu.efficiency.products, gpu.efficiency.memory, gpu.efficiency.network,
                    gpu.flash_attention, 1e6 * gpu.kernel_seconds, cluster.intra.bandwidth / kGB);
  }
  return text;
}

std::string remarks(const std::vector<ComparedRow>& rows) {
  std::string text;
  for (const ComparedRow& row : rows) {
    if (row.row.remark.empty()) continue;
    text += fmt::format("- {} ({:.2f}): {}\n", row.row.id, row.speed_ratio, row.row.remark);
  }
  return text;
}

}  // namespace

/// What must be known before an error is read as one.
constexpr const char* kWhatErrorsMean =
    R"(# Steps that others measured, and what the planner says of them

Written by `11_five_d --plan-published`; the rows are in
chapters/11_five_d/planner/published/rows.json. Ratios are predicted over published seconds, and
predicted over published bytes.

What the errors mean, and what they do not:

- Three constants of each GPU type were fitted, on the rows marked "fitted" and on no others: those
  of the A100 on three rows of Korthikanti et al., those of the H100 on four of the Playbook's. Six
  constants on seven rows: that these rows are met says nothing. They are left out of all medians of
  time; the medians of memory have all rows that publish memory. Other rows of the same two tables
  are the same program's on the same machines.
- The constant of the NICs stands with the GPU type, but is the network's. The H100's was fitted on
  h100-efa alone (nodes with Amazon's Elastic Fabric Adapter), and dgx-h100, h800 and h200 have it
  too, for want of rows.
- Much is set by hand, and no row was fitted for it: chapters/11_five_d/planner/planner.md lists it.
- The form of the model was chosen with the other rows in view, so they are no blind test (but for
  those of MT-NLG), and a new row may be further off than the medians. Chosen after seeing ratios of
  rows that are not fitted: what each program hides and fuses (Software); fp16 gradients of
  Megatron-LM in 2021; how the rows of Llama 3 count attention's FLOP, their ZeRO stage and their
  chunks of one block; the bus bandwidth inside the nodes of h100-efa; one constant for the NICs
  instead of the curve that was measured on that cluster; one NIC a node for ZeRO-3 of 2021; and
  that a token's experts are on four nodes at most, for the DeepSeek-V3 row, as its report says.
  And of memory: nanotron's replicas without ZeRO are in PyTorch's DDP (make_ddp in its trainer),
  which has buckets beside the gradients.
- Rows marked "hold-out, from memory" were written from the papers' tables as known, not opened
  here, and checked for consistency only (tokens per second times time). Open the paper before you
  cite one. So were the hours per 10^12 tokens of the DeepSeek-V3 row. The rows of Narayanan et al.
  and of Llama 3 that are not marked were read in restatements by others, not in the papers.
- Of these rows those of MT-NLG alone are blind: they were entered, from memory too, when the model
  and all presets were done, and nothing was changed for them. Their error is what to expect of a
  program that no preset describes. An exam of 202 more rows is in planner_exam.md.
- Narayanan et al. do not publish the micro-batches of their table 1: there the planner takes those
  that are best by its own prediction. It takes the layouts of both Megatron-Core rows likewise.
- The memory of the Playbook's rows is read as GiB, where the figure says GB. It does not say which
  of two numbers it shows: its program writes both what was allocated and what the allocator had
  reserved (nanotron, src/nanotron/helpers.py: Mem Alloc and Mem Res).
- Of nanotron's memory four facts are known from its code and not counted here, for with them alone
  the median error would rise. A stage takes blocks until they cost more than its part
  (src/nanotron/models/base.py, build_model): 8.86b-1 and 80b-4 would be at 1.00, and 80b-16 at 0.90,
  but 1.34b-1 at 1.12 and 8.86b-4 at 1.10, the median at 6.0 %. Queries and keys are rotated where
  they are, not kept twice (models/llama.py). The loss begins without bf16 logits. And bf16 gradients
  are gone before the next micro-batch (optim/gradient_accumulator.py). With all four, a step played
  through on PyTorch's allocator gives 0.73 to 1.04 of the figure's 26 cells if they show what was
  reserved, half of them within 9 %; and 0.71 to 1.01 if what was allocated. Something else is kept.
- The reasons at the end are what may explain a row, not measurements of why.

)";

std::string published_to_markdown(const std::vector<ComparedRow>& rows) {
  std::string text = kWhatErrorsMean;
  text += "| | rows not fitted | median error of time | rows | median error of memory |\n";
  text += "|---|---|---|---|---|\n";
  text += summary_line("**reference rows**", pointers(rows, true));
  text += summary_line("**hold-out rows**", pointers(rows, false));
  const Groups groups = groups_of(rows);
  for (const auto& [name, members] : groups) text += summary_line(name, members);
  text +=
      "\nThe three fitted constants of a GPU type say what is reached of the data sheet's peak "
      "FLOP/s, memory bandwidth and NIC bandwidth. What is beside them here was not fitted, but "
      "taken from elsewhere: the part of the peak that attention reaches (rounded from what is "
      "published "
      "of FlashAttention-2), the time between two kernels (an estimate), and the bus bandwidth "
      "inside a node (that of h100-efa as said above).\n\n" +
      constants();
  for (const auto& [name, members] : groups) {
    text += fmt::format("\n## {}\n\n{}.\n\n", name, members.front()->row.source);
    text +=
        "| row | GPUs | layout | | published | predicted | ratio | memory | predicted | ratio |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|\n";
    for (const ComparedRow* row : members) text += line_of(*row);
  }
  return text + "\n## What is off, and what may explain it\n\n" + remarks(rows);
}

Json published_to_json(const std::vector<ComparedRow>& rows) {
  Json list = Json::array();
  for (const ComparedRow& compared : rows) {
    const PublishedRow& row = compared.row;
    Json one = {{"id", row.id},
                {"source", row.source},
                {"group", row.group},
                {"fitted", row.fitted},
                {"hold_out", !row.in_reference},
                {"gpus", row.layout.gpus()},
                {"layout", compared.prediction.layout.str()}};
    if (row.unit) {
      one["unit"] = unit_of(row);
      one["published"] = row.speed;
      one["predicted"] = compared.predicted;
      one["ratio"] = compared.speed_ratio;
    }
    if (row.memory_bytes) {
      one["published_memory_gb"] = *row.memory_bytes / kGB;
      one["predicted_memory_gb"] = compared.prediction.memory.tensors() / kGB;
      one["memory_ratio"] = compared.memory_ratio;
    }
    if (!row.remark.empty()) one["remark"] = row.remark;
    list.push_back(one);
  }
  Json groups = Json::array();
  for (const auto& [name, members] : groups_of(rows)) {
    groups.push_back({{"group", name},
                      {"median_error", median_error(free_ratios(members))},
                      {"median_memory_error", median_error(memory_ratios(members))}});
  }
  return {{"median_error", median_error(free_ratios(pointers(rows, true)))},
          {"median_error_of_hold_outs", median_error(free_ratios(pointers(rows, false)))},
          {"groups", groups},
          {"rows", list}};
}

std::vector<ComparedRow> compare_all(const std::string& path) {
  std::vector<ComparedRow> all;
  for (const PublishedRow& row : read_published_rows(path)) {
    throw_if_interrupted();
    all.push_back(compare(row));
  }
  return all;
}

}  // namespace ultra::planner
