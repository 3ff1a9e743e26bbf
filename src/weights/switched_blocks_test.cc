#include "weights/switched_blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/cpu_features.h"
#include "kernels/choose.h"
#include "model/architecture.h"
#include "tensor/strips.h"
#include "tests/support/tiny_model.h"

namespace troika::weights {
namespace {

std::vector<uint8_t> bytes_of(const char* architecture, uint32_t type) {
  test_support::TinyModel model = test_support::tiny_model(architecture);
  model.type = type;
  return test_support::tiny_model_bytes(model);
}

struct Model {
  explicit Model(const char* architecture, uint32_t type = test_support::kQ4_0,
                 bool is_in_strips = false)
      : bytes(bytes_of(architecture, type)),
        file(gguf::File::parse(std::as_bytes(std::span(bytes)), "tiny")),
        blueprint(model::read(file)),
        store(file, blueprint),
        blocks(blueprint, store, file,
               is_in_strips ? prompt_matrices(blueprint) : std::vector<model::WeightId>()),
        team(2) {}

  std::unique_ptr<BlockCopy> rows(int block) {
    std::vector<FileRead> reads;
    std::unique_ptr<BlockCopy> copy = blocks.begin_rows(block, &reads);
    for (const FileRead& read : reads) {
      const std::span<const std::byte> bytes = file.shards()[static_cast<size_t>(read.shard)].bytes;
      EXPECT_LE(read.offset + read.bytes, bytes.size());
      EXPECT_EQ(read.offset % 4096, 0u);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(read.to) % 4096, 0u);
      std::memcpy(read.to, bytes.data() + read.offset, read.bytes);
    }
    return copy;
  }

  std::vector<uint8_t> bytes;
  gguf::File file;
  model::Blueprint blueprint;
  Store store;
  SwitchedBlocks blocks;
  Team team;
};

// Expects that the block of a weight is in panels, with the bits of packed copies.
void expect_panels(const Model& m, model::WeightId id) {
  const SwitchedMatrix* now = m.blocks.find(id);
  ASSERT_EQ(now->rows, nullptr);
  const kernels::Int8Panels& packed = *m.store.int8_panels(id);
  const size_t n_strips = kernels::n_strips(packed.n_rows);
  EXPECT_EQ(std::memcmp(now->panels->levels, packed.levels,
                        n_strips * kernels::int8_strip_bytes(packed.k)),
            0);
  EXPECT_EQ(std::memcmp(now->panels->scales, packed.scales,
                        n_strips * kernels::kStripRows * sizeof(float)),
            0);
  EXPECT_EQ(std::memcmp(now->panels->starts, packed.starts,
                        n_strips * kernels::kStripRows * sizeof(int32_t)),
            0);
}

// The form in use stays where it is while somebody reads it.
TEST(SwitchedBlocks, LeasesHoldWhatIsThere) {
  Model m("llama");
  const model::WeightId id = prompt_matrices(m.blueprint).front();
  const Matrix& matrix = m.store.matrix(id);
  EXPECT_FALSE(Lease().is_ready());
  EXPECT_FALSE(m.blocks.acquire(id).is_ready());
  auto rows = m.rows(0);
  m.blocks.measure(*rows, m.team);
  auto panels = m.blocks.make_panels(*rows, m.team);
  (void)m.blocks.use(std::move(rows));
  {
    const Lease lease = m.blocks.acquire(id);
    ASSERT_TRUE(lease.is_ready());
    EXPECT_EQ(lease.panels(), nullptr);
    EXPECT_EQ(std::memcmp(lease.rows(), matrix.data, matrix.bytes()), 0);
    EXPECT_DEATH((void)m.blocks.use(std::move(panels)), "n_leases");
    Lease moved = m.blocks.acquire(id);
    Lease other = std::move(moved);  // is one lease in all
  }
  (void)m.blocks.use(std::move(panels));
  EXPECT_EQ(m.blocks.acquire(id).panels(), m.blocks.find(id)->panels);
}

// The two forms of every matrix have the bits of the file and of packed copies.
TEST(SwitchedBlocks, D1BothFormsAreThoseOfTheStore) {
  for (const auto& [name, type] :
       {std::pair("llama", test_support::kQ4_0), std::pair("phi2", test_support::kQ8_0),
        std::pair("qwen2", test_support::kQ4_K), std::pair("gemma", test_support::kF32)}) {
    SCOPED_TRACE(name);
    Model m(name, type);
    const std::vector<model::WeightId> ids = prompt_matrices(m.blueprint);
    m.store.pack_int8(ids, 1);
    for (int block = 0; block < m.blocks.n_blocks(); ++block) {
      auto rows = m.rows(block);
      m.blocks.measure(*rows, m.team);
      auto panels = m.blocks.make_panels(*rows, m.team);
      EXPECT_EQ(m.blocks.use(std::move(rows)), nullptr);
    }
    for (const model::WeightId id : ids) {
      const SwitchedMatrix* now = m.blocks.find(id);
      ASSERT_NE(now, nullptr);
      const Matrix& matrix = m.store.matrix(id);
      ASSERT_EQ(now->panels, nullptr);
      EXPECT_NE(now->rows, matrix.data);
      EXPECT_EQ(std::memcmp(now->rows, matrix.data,
                            matrix.row_bytes * static_cast<size_t>(matrix.n_rows)),
                0);
    }
    for (int block = 0; block < m.blocks.n_blocks(); ++block) {
      const auto old = m.blocks.use(m.blocks.make_panels(*m.blocks.in_use(block), m.team));
      EXPECT_EQ(old->form(), BlockForm::kRows);
    }
    for (const model::WeightId id : ids) expect_panels(m, id);
  }
}

// Strips have the file's rows in another order, sixteen side by side, and give the same panels.
TEST(SwitchedBlocks, D1RowsInStripsGiveTheSamePanels) {
  const kernels::Table& kernels = kernels::choose(detect_cpu_features()).table;
  if (kernels::find(kernels.unpack_int8_strips, tensor::Type::kQ4_0) == nullptr) {
    GTEST_SKIP() << "the kernels of this processor know no strips";
  }
  for (const auto type : {test_support::kQ4_0, test_support::kQ8_0, test_support::kQ4_K}) {
    Model m("qwen2", type, /*is_in_strips=*/true);
    const std::vector<model::WeightId> ids = prompt_matrices(m.blueprint);
    m.store.pack_int8(ids, 1);
    for (int block = 0; block < m.blocks.n_blocks(); ++block) {
      auto rows = m.rows(block);
      m.blocks.measure(*rows, m.team);
      m.blocks.place_in_strips(rows.get(), m.team);
      m.blocks.unpack(*rows, m.team);
      m.blocks.use(std::move(rows));
    }
    std::vector<std::byte> row(size_t{1} << 16);
    for (const model::WeightId id : ids) {
      const Matrix& matrix = m.store.matrix(id);
      ASSERT_EQ(m.blocks.n_strip_rows(id), matrix.n_rows / 16 * 16);
      const SwitchedMatrix* now = m.blocks.find(id);
      for (int i = 0; i < m.blocks.n_strip_rows(id); ++i) {
        const size_t strip = static_cast<size_t>(i) / tensor::kStripRows;
        tensor::copy_strip_row(matrix.type, now->rows + strip * 16 * matrix.row_bytes,
                               static_cast<size_t>(i) % tensor::kStripRows,
                               static_cast<size_t>(matrix.row_length), row.data());
        ASSERT_EQ(std::memcmp(row.data(), matrix.data + static_cast<size_t>(i) * matrix.row_bytes,
                              matrix.row_bytes),
                  0);
      }
    }
    for (int block = 0; block < m.blocks.n_blocks(); ++block) {
      m.blocks.use(m.blocks.make_panels(*m.blocks.in_use(block), m.team));
    }
    for (const model::WeightId id : ids) expect_panels(m, id);
  }
}

TEST(SwitchedBlocks, D1MemoryIsCountedWhileItIsThere) {
  Model m("llama");
  const size_t rows_bytes = m.blocks.bytes(0, BlockForm::kRows);
  const size_t panel_bytes = m.blocks.bytes(0, BlockForm::kPanels);
  const CopyBytes& held = m.blocks.held();
  EXPECT_EQ(held.now, 0u);
  {
    const auto rows = m.rows(0);
    EXPECT_EQ(held.now, rows_bytes);
    m.blocks.measure(*rows, m.team);
    m.blocks.use(m.blocks.make_panels(*rows, m.team));
    EXPECT_EQ(held.now, rows_bytes + panel_bytes);
  }
  EXPECT_EQ(held.now, panel_bytes);
  EXPECT_EQ(held.peak, rows_bytes + panel_bytes);
  const auto panels = m.blocks.use(m.rows(0));
  EXPECT_EQ(panels->form(), BlockForm::kPanels);
  EXPECT_EQ(m.blocks.in_use(0)->form(), BlockForm::kRows);
  EXPECT_GE(m.blocks.copy_bytes(), 2 * std::max(rows_bytes, panel_bytes));
  EXPECT_GE(m.blocks.largest_bytes(), std::max(rows_bytes, panel_bytes));
}

TEST(SwitchedBlocks, D1TheHeadAndTheEmbeddingHaveOneForm) {
  const Model m("llama");
  for (const model::Op& op : m.blueprint.ops) {
    if (op.weight == model::kNone) continue;
    const bool is_of_block = op.kind == model::OpKind::kLinear && op.layer != model::kNone;
    EXPECT_EQ(m.blocks.find(op.weight) != nullptr, is_of_block);
  }
}

}  // namespace
}  // namespace troika::weights
