/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coffer.hpp: that objects release what they hold whatever is thrown, that errors carry all that the library says, that types are
 * checked, and that moving works. What the library itself does is the business of the tests in C.
 *
 * Run in an empty folder, which it leaves empty; with a sanitizer that sees leaks, they are failures too.
 */
#include <coffer.hpp>

#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

using namespace std::string_literals;
using cofferpp::slice;

int failures = 0;

void expect(bool holds, const char *what, int line)
{
    if (!holds) {
        std::fprintf(stderr, "test_hpp.cpp:%d: not so: %s\n", line, what);
        failures++;
    }
}

#define EXPECT(condition) expect((condition), #condition, __LINE__)

/* The error that a call throws; one with COFFER_OK when it throws none. */
template <class Call> cofferpp::error thrown_by(Call call)
{
    try {
        (void)call();
    } catch (const cofferpp::error &err) {
        return err;
    }
    return cofferpp::error(coffer_error{});
}

const std::vector<float> WEIGHTS = { 0, 1, 2, 3, 4, 5 };
const std::vector<std::int64_t> IDS = { -1, 7 };

cofferpp::header declare()
{
    cofferpp::header declared;
    declared.set_metadata("format", "pt");
    declared.set_metadata("author", "nobody");
    EXPECT(declared.add("w", COFFER_F32, { 2, 3 }) == 0);
    const std::vector<std::uint64_t> shape = { 2 };
    EXPECT(declared.add("ids", COFFER_I64, shape) == 1);
    EXPECT(declared.add("one", COFFER_BF16, {}) == 2);
    EXPECT(declared.size() == 3);
    return declared;
}

void write_all(cofferpp::writer &out)
{
    out.write(0, WEIGHTS);
    out.write(1, IDS);
    const unsigned char one[] = { 0x80, 0x3F };
    out.write(2, one);
    out.finish();
}

void write_file(const char *path)
{
    cofferpp::writer out(path, declare());
    write_all(out);
}

/* ---- What the types promise ---- */

template <class T> constexpr bool moves_only()
{
    return !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
           std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
           std::is_nothrow_destructible_v<T>;
}

static_assert(moves_only<cofferpp::model>());
static_assert(moves_only<cofferpp::header>());
static_assert(moves_only<cofferpp::writer>());
static_assert(moves_only<cofferpp::model_writer>());
static_assert(moves_only<cofferpp::hasher>());
static_assert(moves_only<cofferpp::manifest>());
static_assert(moves_only<cofferpp::buffer>());
static_assert(sizeof(cofferpp::model) == sizeof(coffer *), "an owner costs nothing");
static_assert(std::is_trivially_copyable_v<cofferpp::tensor>);
static_assert(std::is_nothrow_copy_constructible_v<cofferpp::error>, "an exception must be copied without another");
static_assert(std::is_base_of_v<std::runtime_error, cofferpp::error>);
static_assert(std::is_convertible_v<std::vector<float> &, cofferpp::span<float>>);
static_assert(std::is_convertible_v<const std::vector<float> &, cofferpp::span<const float>>);
static_assert(!std::is_convertible_v<const std::vector<float> &, cofferpp::span<float>>);
static_assert(!std::is_convertible_v<std::vector<float>, cofferpp::span<float>>);
static_assert(!std::is_convertible_v<std::vector<double> &, cofferpp::span<float>>);

template <class T, class = void> struct lends_tensors : std::false_type {
};
template <class T> struct lends_tensors<T, std::void_t<decltype(std::declval<T>().at("w"))>> : std::true_type {
};
static_assert(lends_tensors<cofferpp::model &>::value && lends_tensors<const cofferpp::model &>::value);
static_assert(!lends_tensors<cofferpp::model>::value, "of a model that is gone at once, nothing is lent");

/* ---- Reading ---- */

void test_look_up()
{
    const cofferpp::model model("m.safetensors");
    EXPECT(model.size() == 3 && !model.empty() && model.shard_count() == 1);
    const cofferpp::tensor w = model.at("w");
    EXPECT(w.name() == "w" && w.dtype() == COFFER_F32 && w.dtype_name() == "F32" && w.elements() == 6);
    EXPECT(w.size() == 24 && w.shape().size() == 2 && w.shape()[0] == 2 && w.shape()[1] == 3 && w.shard() == 0);
    EXPECT(w.offset() == coffer_find(model.get(), "w", 1)->offset && w.get() == coffer_find(model.get(), "w", 1));
    EXPECT(model.find("w")->get() == w.get() && !model.find("none"));
    EXPECT(model.at("one").shape().empty());
    std::string names;
    for (const cofferpp::tensor each : model) {
        names += std::string(each.name()) + " ";
    }
    EXPECT(names == "ids w one ");
    EXPECT(model[0].name() == "ids" && model[2].name() == "one");
    EXPECT(model.metadata("format") == "pt" && !model.metadata("none"));
    EXPECT(model.metadata().size() == 2 && model.metadata()[0].first == "author" &&
           model.metadata()[0].second == "nobody");
    EXPECT(model.path() == "m.safetensors" && model.path(1).empty() && !model.index_metadata());
}

void test_what_else_a_model_says()
{
    const cofferpp::model model("m.safetensors");
    EXPECT((model.sorted_by_name() == std::vector<std::uint32_t>{ 0, 2, 1 })); /* ids one w */
    EXPECT(model.shard_size() == coffer_table_data_offset(model.table()) + 24 + 16 + 2 && model.shard_size(1) == 0);
    EXPECT(coffer_table_format(model.table()) == COFFER_FORMAT_SAFETENSORS);
    EXPECT(thrown_by([&] { return model.table(1); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(model.header().size() == coffer_table_data_offset(model.table()) && model.header()[8] == '{');
    EXPECT(model.index_path().empty() && model.index_text().empty());
    const auto [note, subject] = model.note(COFFER_NOTE_CONTROL_NAME);
    EXPECT(note.count == 0 && note.offset == COFFER_NO_OFFSET && subject.empty());
    EXPECT(model.count_parameters().plain[COFFER_F32] == 6 && model.count_parameters("{}").plain[COFFER_I64] == 2);
    EXPECT(model.count_parameters(std::string_view()).plain[COFFER_BF16] ==
           1); /* by no text: not by one that is there */
}

void test_notes_have_a_subject()
{
    cofferpp::header declared;
    declared.add("a\tb", COFFER_U8, { 0 });
    const auto bytes = declared.build();
    const cofferpp::model model(bytes);
    const auto [note, subject] = model.note(COFFER_NOTE_CONTROL_NAME);
    EXPECT(note.count == 1 && note.offset != COFFER_NO_OFFSET && subject.empty()); /* in memory it has no name */
    EXPECT(cofferpp::escape(model[0].name()) == R"(a\x09b)" && cofferpp::escape({}).empty());
}

void test_an_index()
{
    static const char text[] = R"({"metadata": {"total_size": 0}, "weight_map": {"w": "m.safetensors"}})";
    std::FILE *file = std::fopen("m.index.json", "w");
    EXPECT(file != nullptr && std::fputs(text, file) >= 0 && std::fclose(file) == 0);
    const cofferpp::model model("m.index.json");
    EXPECT(model.index_metadata() == R"({"total_size": 0})" && model.path() == "m.safetensors");
    EXPECT(model.index_path() == "m.index.json" && model.index_text() == text);
    const auto [note, subject] = model.note(COFFER_NOTE_UNINDEXED);
    EXPECT(note.count == 2 && subject == "ids");
    unlink("m.index.json");
}

void test_data()
{
    const cofferpp::model model("m.safetensors");
    const auto numbers = model.at("w").as<float>();
    EXPECT(std::vector<float>(numbers.begin(), numbers.end()) == WEIGHTS);
    EXPECT(static_cast<const void *>(numbers.data()) == coffer_data(model.get(), model.at("w").get(), nullptr));
    EXPECT(model.at("ids").as<std::int64_t>()[0] == -1);
    EXPECT(model.at("one").data()[1] == std::byte{ 0x3F } && model.at("one").as<char>().size() == 2);
    const auto wrong = thrown_by([&] { return model.at("w").as<std::int32_t>(); });
    EXPECT(wrong.code() == COFFER_ERR_ARGUMENT && "w"s == wrong.tensor() &&
           "the tensor holds F32, not I32"s == wrong.message());
    EXPECT(thrown_by([&] { return model.at("one").as<std::uint16_t>(); }).code() == COFFER_ERR_ARGUMENT);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_READ;
    const cofferpp::model unmapped("m.safetensors", &options);
    EXPECT(thrown_by([&] { return unmapped.at("w").data(); }).code() == COFFER_ERR_NOT_MAPPED);
}

void test_data_that_is_not_aligned()
{
    /* F32 behind one byte: legal, and at an odd place. */
    const std::string text = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
    std::string file(8, '\0');
    file[0] = static_cast<char>(text.size());
    file += text + "\x09" + "\x00\x00\x80\x3F"s;
    const auto *bytes = reinterpret_cast<const std::byte *>(file.data());
    const cofferpp::model model(cofferpp::span<const std::byte>(bytes, file.size()));
    const auto unaligned = thrown_by([&] { return model.at("f").as<float>(); });
    EXPECT(unaligned.code() == COFFER_ERR_UNSUPPORTED && "f"s == unaligned.tensor());
    EXPECT(model.at("f").values<float>() == std::vector<float>{ 1 });
}

void test_reading()
{
    const cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    EXPECT(w.values<float>() == WEIGHTS);
    const cofferpp::buffer whole = w.read();
    EXPECT(whole.size() == 24 && whole.as<float>()[5] == 5 && whole.end() - whole.begin() == 24);
    std::vector<std::byte> place(24);
    w.read(place);
    EXPECT(std::memcmp(place.data(), WEIGHTS.data(), 24) == 0);
    place.resize(23);
    const auto small = thrown_by([&] {
        w.read(place);
        return 0;
    });
    EXPECT(small.code() == COFFER_ERR_BUFFER_SIZE && small.expected() == 24 && small.actual() == 23);
    EXPECT(thrown_by([&] { return w.values<double>(); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(model.at("one").decode() == std::vector<double>{ 1 });
    EXPECT((model.at("ids").decode() == std::vector<double>{ -1, 7 }));

    std::int64_t ids[2] = {};
    float weights[6] = {};
    const coffer_read_target targets[] = { { w.get(), weights, sizeof weights },
                                           { model.at("ids").get(), ids, sizeof ids } };
    model.read(targets);
    EXPECT(weights[5] == 5 && ids[0] == -1 && ids[1] == 7);
}

void test_reading_a_part()
{
    const cofferpp::model model("m.safetensors");
    float middle[2] = {};
    const cofferpp::span<std::byte> place(reinterpret_cast<std::byte *>(middle), sizeof middle);
    model.at("w").read_part(8, place);
    EXPECT(middle[0] == 2 && middle[1] == 3);
    const auto outside = [&] {
        model.at("w").read_part(20, place);
        return 0;
    };
    EXPECT(thrown_by(outside).code() == COFFER_ERR_INDEX);
}

void test_data_to_be_changed()
{
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.access = COFFER_MAP_PRIVATE;
    const cofferpp::model model("m.safetensors", &options);
    model.at("one").data_mutable()[1] = std::byte{ 0x40 };
    EXPECT(model.at("one").data()[1] == std::byte{ 0x40 } && model.at("one").is_aligned());
    const cofferpp::model unchanged("m.safetensors");
    EXPECT(unchanged.at("one").data()[1] == std::byte{ 0x3F } && unchanged.at("one").model() == unchanged.get());
    EXPECT(thrown_by([&] { return unchanged.at("one").data_mutable(); }).code() == COFFER_ERR_NOT_MAPPED);
}

int cancel(void *, std::uint64_t, std::uint64_t)
{
    return 1;
}

void test_options_arrive()
{
    const cofferpp::model model("m.safetensors");
    coffer_read_options options = COFFER_READ_OPTIONS_INIT;
    options.progress = cancel;
    EXPECT(thrown_by([&] { return model.at("w").read(&options); }).code() == COFFER_ERR_CANCELLED);
    coffer_open_options limited = COFFER_OPEN_OPTIONS_INIT;
    limited.max_header_size = 10;
    EXPECT(thrown_by([&] { return cofferpp::model("m.safetensors", &limited); }).code() == COFFER_ERR_HEADER_TOO_LARGE);
}

void test_slices()
{
    const cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    EXPECT((w.values<float>(slice("1, :2")) == std::vector<float>{ 3, 4 }));
    EXPECT((w.values<float>(slice{ slice::at(1), slice::range(std::nullopt, 2) }) == std::vector<float>{ 3, 4 }));
    EXPECT((w.values<float>(slice{ slice::all(), slice::at(-1) }) == std::vector<float>{ 2, 5 }));
    EXPECT((w.values<float>(slice{ slice::ellipsis(), slice::range({}, {}, -2) }) == std::vector<float>{ 2, 0, 5, 3 }));
    EXPECT((w.shape_of(slice("1:, ::2")) == std::vector<std::uint64_t>{ 1, 2 }) && w.size_of(slice("1:, ::2")) == 8);
    EXPECT(w.shape_of(slice("0, 0")).empty() && w.decode(slice("0, 2")) == std::vector<double>{ 2 });
    EXPECT(w.read(slice("0, 3:")).size() == 0 && w.values<float>(slice("0, 3:")).empty());
    EXPECT(thrown_by([] { return slice("1, :x"); }).code() == COFFER_ERR_SLICE_SYNTAX);
    EXPECT(thrown_by([] { return slice("1, :x"); }).offset() == 4);
    EXPECT(thrown_by([&] { return w.read(slice{ slice::at(2) }); }).code() == COFFER_ERR_INDEX);
    EXPECT(slice("0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0").indices().size() == 20);
}

/* ---- Failing ---- */

void test_errors_carry_everything()
{
    const auto lost = thrown_by([] { return cofferpp::model("none.safetensors"); });
    EXPECT(lost.code() == COFFER_ERR_NOT_FOUND && "NOT_FOUND"s == lost.name() && lost.os_error() == ENOENT);
    EXPECT("none.safetensors"s == lost.path() && !lost.offset() && lost.http_status() == 0);
    EXPECT(lost.what() == "none.safetensors: "s + lost.message());
    const auto stops = thrown_by([] { return cofferpp::model(cofferpp::span<const std::byte>()); });
    EXPECT(stops.code() == COFFER_ERR_EMPTY && stops.what() == std::string(stops.message()));
    const cofferpp::model model("m.safetensors");
    const auto none = thrown_by([&] { return model.at("w\n"); });
    EXPECT(none.code() == COFFER_ERR_NO_TENSOR && R"(w\x0a)"s == none.tensor() && none.fields().code == none.code());
    EXPECT(thrown_by([&] { return model.metadata("format", 1); }).code() == COFFER_ERR_ARGUMENT);
    const cofferpp::error copy = none;
    EXPECT(copy.code() == none.code() && std::strcmp(copy.what(), none.what()) == 0);
}

void *no_alloc(void *, std::size_t)
{
    return nullptr;
}
void *no_realloc(void *, void *, std::size_t, std::size_t)
{
    return nullptr;
}
void no_free(void *, void *, std::size_t)
{
}

struct counted_source {
    std::vector<std::byte> bytes;
    int closed = 0;

    coffer_source source()
    {
        coffer_source made{};
        made.read_at = [](void *ctx, std::uint64_t offset, void *place, std::size_t size, coffer_error *) {
            const auto *self = static_cast<counted_source *>(ctx);
            std::memcpy(place, self->bytes.data() + offset, size);
            return COFFER_OK;
        };
        made.close = [](void *ctx) { static_cast<counted_source *>(ctx)->closed++; };
        made.ctx = this;
        made.size = bytes.size();
        return made;
    }
};

void test_a_constructor_that_throws_leaves_nothing()
{
    const coffer_allocator none = { no_alloc, no_realloc, no_free, nullptr };
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    options.allocator = &none;
    EXPECT(thrown_by([&] { return cofferpp::model("m.safetensors", &options); }).code() == COFFER_ERR_MEMORY);
    counted_source nonsense{ std::vector<std::byte>(16) };
    EXPECT(thrown_by([&] { return cofferpp::model(nonsense.source()); }).code() == COFFER_ERR_HEADER_LENGTH);
    EXPECT(nonsense.closed == 1);
    EXPECT(thrown_by([] { return cofferpp::writer("none/out.safetensors", declare()); }).code() ==
           COFFER_ERR_NOT_FOUND);
}

void test_other_sources()
{
    const int fd = open("m.safetensors", O_RDONLY);
    const cofferpp::model by_fd(fd);
    EXPECT(by_fd.at("w").values<float>() == WEIGHTS);
    counted_source own{ std::vector<std::byte>(coffer_shard_size(by_fd.get(), 0)) };
    EXPECT(pread(fd, own.bytes.data(), own.bytes.size(), 0) == static_cast<ssize_t>(own.bytes.size()));
    close(fd);
    {
        const cofferpp::model by_source(own.source());
        EXPECT(by_source.at("w").values<float>() == WEIGHTS && own.closed == 0);
    }
    EXPECT(own.closed == 1);
}

/* ---- Moving ---- */

void test_moving()
{
    write_file("other.safetensors");
    cofferpp::model model("m.safetensors");
    const cofferpp::tensor w = model.at("w");
    cofferpp::model moved(std::move(model));
    EXPECT(w.values<float>() == WEIGHTS && moved.at("w").get() == w.get());
    model = cofferpp::model("other.safetensors");
    moved = std::move(model);
    EXPECT(moved.at("ids").values<std::int64_t>() == IDS);
    cofferpp::buffer a(16);
    cofferpp::buffer b(std::move(a));
    EXPECT(b.size() == 16 && a.size() == 0 && a.data() == nullptr); // NOLINT: what it was moved from is empty
    b = cofferpp::buffer(32);
    EXPECT(b.size() == 32 && b.data() != nullptr);
    /* The writer that goes must go before its header does, and takes its file along. */
    cofferpp::writer first("first.safetensors", declare());
    cofferpp::writer second("second.safetensors", declare());
    first = std::move(second);
    write_all(first);
    EXPECT(access("first.safetensors", F_OK) != 0 && cofferpp::model("second.safetensors").size() == 3);
    unlink("other.safetensors");
    unlink("second.safetensors");
}

/* ---- Writing ---- */

void test_a_writer_that_is_left_publishes_nothing()
{
    const auto left = thrown_by([] {
        cofferpp::writer out("left.safetensors", declare());
        out.write(0, WEIGHTS);
        out.finish();
        return 0;
    });
    EXPECT(left.code() == COFFER_ERR_MISSING_DATA && access("left.safetensors", F_OK) != 0);
}

void test_what_a_writer_refuses()
{
    cofferpp::writer out("refused.safetensors", declare());
    const auto write = [&](std::size_t i, const auto &values, std::uint64_t offset) {
        return thrown_by([&] {
            out.write(i, values, offset);
            return 0;
        });
    };
    EXPECT(write(0, std::vector<double>{ 1 }, 0).code() == COFFER_ERR_ARGUMENT);
    EXPECT("the tensor holds F32, not F64"s == write(0, std::vector<double>{ 1 }, 0).message());
    EXPECT(write(1, std::vector<std::uint64_t>{ 1 }, 0).code() == COFFER_ERR_ARGUMENT);
    EXPECT(write(0, WEIGHTS, 4).code() == COFFER_ERR_WRITE_RANGE);
}

void test_writing_to_memory_and_in_pieces()
{
    cofferpp::header declared = declare();
    EXPECT(declared.at(0) == nullptr);
    coffer_header_options options = COFFER_HEADER_OPTIONS_INIT;
    options.alignment = 64;
    const std::size_t start = declared.build(&options).size();
    EXPECT(start % 64 == 0 && declared.at(1)->offset == start);
    std::vector<std::byte> memory(start + 24 + 16 + 2);
    cofferpp::writer out(cofferpp::span<std::byte>(memory), std::move(declared));
    EXPECT(out.declared().size() == 3);
    const cofferpp::span<const float> weights(WEIGHTS);
    out.write(0, weights.subspan(3, 3), 12);
    out.write(0, weights.subspan(0, 3));
    out.write(1, IDS);
    out.write(2, std::vector<std::byte>{ std::byte{ 0x80 }, std::byte{ 0x3F } });
    out.finish();
    EXPECT(cofferpp::model(memory).size() == 3);
    const cofferpp::model model(memory);
    EXPECT(model.at("w").values<float>() == WEIGHTS);
}

void test_what_a_header_refuses()
{
    cofferpp::header declared;
    EXPECT(thrown_by([&] { return declared.add("__metadata__", COFFER_U8, {}); }).code() == COFFER_ERR_NAME);
    EXPECT(thrown_by([&] { return declared.add("x", COFFER_F64, { UINT64_MAX }); }).code() == COFFER_ERR_OVERFLOW);
    declared.add("x", COFFER_U8, { 1 });
    declared.add("x", COFFER_U8, { 1 });
    EXPECT(thrown_by([&] { return declared.build(); }).code() == COFFER_ERR_DUPLICATE_NAME);
}

void test_encoding()
{
    const double values[] = { 1, -2 };
    const cofferpp::buffer half = cofferpp::encode(COFFER_F16, values);
    EXPECT(half.size() == 4 && half.data()[1] == std::byte{ 0x3C } && half.data()[3] == std::byte{ 0xC0 });
    EXPECT(cofferpp::encode(COFFER_F64, {}).size() == 0);
    cofferpp::header declared;
    declared.add("x", COFFER_F16, { 2 });
    std::vector<std::byte> memory(declared.build().size() + half.size());
    cofferpp::writer out(cofferpp::span<std::byte>(memory), std::move(declared));
    out.write(0, half);
    out.finish();
    const cofferpp::model model(memory);
    EXPECT((model.at("x").decode() == std::vector<double>{ 1, -2 }));
    EXPECT(thrown_by([&] { return cofferpp::encode(COFFER_I32, values); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(thrown_by([&] { return cofferpp::encode(COFFER_UNKNOWN_DTYPE, values); }).code() == COFFER_ERR_ARGUMENT);
}

void test_copying()
{
    const cofferpp::model model("m.safetensors");
    cofferpp::writer out("copy.safetensors", declare());
    const coffer_copy both[] = { { 0, model.get(), model.at("w").get() }, { 1, model.get(), model.at("ids").get() } };
    out.copy(both);
    out.copy(2, model.at("one"));
    out.finish();
    EXPECT(cofferpp::model("copy.safetensors").shard_size() == model.shard_size());
    cofferpp::writer wrong("wrong.safetensors", declare());
    const auto refused = [&] {
        wrong.copy(0, model.at("ids"));
        return 0;
    };
    EXPECT(thrown_by(refused).code() == COFFER_ERR_WRITE_RANGE);
    unlink("copy.safetensors");
}

/* ---- Models of several files ---- */

cofferpp::model_writer start_model(const char *path)
{
    coffer_model_writer_options options = COFFER_MODEL_WRITER_OPTIONS_INIT;
    options.max_shard_size = 24;
    return cofferpp::model_writer(path, declare(), &options);
}

void test_a_model_of_several_files()
{
    const cofferpp::model source("m.safetensors");
    cofferpp::model_writer out = start_model("s.safetensors");
    EXPECT(out.shard_count() == 2 && out.name(0) == "s-00001-of-00002.safetensors" && out.name(2).empty());
    EXPECT(out.shard_of(0) == 0 && out.shard_of(1) == 1 && out.shard_of(2) == 1);
    EXPECT(out.declared().dtype(2) == COFFER_BF16 && out.declared().dtype(3) == COFFER_UNKNOWN_DTYPE);
    const auto wrong = thrown_by([&] {
        out.write(0, IDS);
        return 0;
    });
    EXPECT(wrong.code() == COFFER_ERR_ARGUMENT && "the tensor holds F32, not I64"s == wrong.message());
    out.write(0, WEIGHTS);
    out.copy(1, source.at("ids"));
    out.copy(2, source.at("one"));
    out.finish();
    {
        const cofferpp::model model("s.safetensors.index.json");
        EXPECT(model.size() == 3 && model.shard_count() == 2 && model.at("ids").values<std::int64_t>() == IDS);
        EXPECT(model.at("ids").shard() == 1 && model.metadata("author", 1) == "nobody");
    }
    EXPECT(unlink("s-00001-of-00002.safetensors") == 0);
    const auto files = cofferpp::list_files("s.safetensors.index.json");
    EXPECT(files.size() == 2);
    EXPECT(files[0].path == "s-00001-of-00002.safetensors" && !files[0].exists);
    EXPECT(files[1].path == "s-00002-of-00002.safetensors" && files[1].exists);
    for (const char *name : { "s-00002-of-00002.safetensors", "s.safetensors.index.json" }) {
        EXPECT(unlink(name) == 0);
    }
    EXPECT(thrown_by([] { return cofferpp::list_files("s.safetensors.index.json"); }).code() == COFFER_ERR_NOT_FOUND);
}

void test_a_file_that_is_cut_short()
{
    write_file("c.safetensors");
    struct stat about;
    EXPECT(stat("c.safetensors", &about) == 0 && truncate("c.safetensors", about.st_size - 1) == 0);
    coffer_open_options options = COFFER_OPEN_OPTIONS_INIT;
    EXPECT(thrown_by([&] { return cofferpp::model("c.safetensors", &options); }).code() == COFFER_ERR_DATA_TRUNCATED);
    options.partial = true;
    const cofferpp::model model("c.safetensors", &options);
    std::size_t cut = 0;
    for (const auto tensor : model) {
        cut += tensor.is_whole() ? 0 : 1;
    }
    EXPECT(cut == 1);
    unlink("c.safetensors");
}

void test_a_model_writer_that_is_left_publishes_nothing()
{
    cofferpp::model_writer first = start_model("first.safetensors");
    first.write(0, WEIGHTS);
    EXPECT(mkdir("apart", 0700) == 0);
    first = start_model("apart/second.safetensors");
    const auto left = thrown_by([&] {
        first.finish();
        return 0;
    });
    EXPECT(left.code() == COFFER_ERR_MISSING_DATA);
    {
        const cofferpp::model_writer gone(std::move(first));
    }
    EXPECT(rmdir("apart") == 0);
}

/* ---- Editing ---- */

void test_editing()
{
    write_file("e.safetensors");
    EXPECT(cofferpp::edit_metadata("e.safetensors",
                                   { { "license", "mit" }, { "author", std::nullopt }, { "none", "" } }) !=
           COFFER_EDITED_NOTHING);
    {
        const cofferpp::model model("e.safetensors");
        EXPECT(model.metadata("license") == "mit" && !model.metadata("author") && model.metadata("format") == "pt");
        EXPECT(model.metadata("none") == "");
    }
    {
        const std::vector<cofferpp::edit> unnamed = { { std::string_view(), "no name" } };
        EXPECT(cofferpp::edit_metadata("e.safetensors", unnamed) != COFFER_EDITED_NOTHING);
        const cofferpp::model model("e.safetensors");
        EXPECT(model.metadata(std::string_view()) == "no name" && model.metadata("") == "no name");
        EXPECT(!model.find(std::string_view()));
    }
    const std::vector<cofferpp::edit> edits = { { "none", std::string_view() } }; /* set to nothing, and not removed */
    EXPECT(cofferpp::edit_metadata("e.safetensors", edits) == COFFER_EDITED_NOTHING);
    coffer_edit_options options = COFFER_EDIT_OPTIONS_INIT;
    options.mode = COFFER_EDIT_IN_PLACE;
    const std::string large(10000, 'x');
    EXPECT(thrown_by([&] {
               return cofferpp::edit_metadata("e.safetensors", { { "k", large } }, &options);
           }).code() == COFFER_ERR_NO_SLACK);
    const int file = open("e.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    EXPECT(chmod("e.safetensors", 0604) == 0);
    cofferpp::take_rights(file, "e.safetensors");
    struct stat rights {
    };
    EXPECT(fstat(file, &rights) == 0 && (rights.st_mode & 0777) == 0604);
    EXPECT(thrown_by([file] {
               cofferpp::take_rights(file, "none");
               return 0;
           }).code() == COFFER_ERR_NOT_FOUND);
    close(file);
    unlink("e.new");
    const auto nothing = thrown_by([] {
        cofferpp::recover("e.safetensors");
        return 0;
    });
    EXPECT(nothing.code() == COFFER_ERR_NO_UNDO && "e.safetensors"s == nothing.path());
    unlink("e.safetensors");
}

/* ---- Integrity ---- */

void test_rewriting()
{
    write_file("e.safetensors");
    const coffer_rewrite_rule rules[] = { { COFFER_REWRITE_RENAME, COFFER_UNKNOWN_DTYPE, "*", "new.*" } };
    const coffer_rewrite_rule none[] = { { COFFER_REWRITE_DROP, COFFER_UNKNOWN_DTYPE, "nosuch", nullptr } };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.rules = rules;
    options.rule_count = 1;
    {
        const cofferpp::model before("e.safetensors");
        cofferpp::rewrite rewrite(before, &options);
        EXPECT(rewrite.summary().way == COFFER_REWRITE_HEADERS);
        EXPECT(rewrite.summary().tensor_count == coffer_count(before.get()));
        EXPECT(rewrite.at(0) != nullptr && std::string(rewrite.at(0)->to->name).rfind("new.", 0) == 0);
        EXPECT(rewrite.at(rewrite.summary().tensor_count) == nullptr);
        rewrite.run();
    }
    const cofferpp::model after("e.safetensors");
    EXPECT(std::string(coffer_at(after.get(), 0)->name).rfind("new.", 0) == 0);
    options.rules = none;
    EXPECT(thrown_by([&] { return cofferpp::rewrite(after, &options); }).code() == COFFER_ERR_NO_TENSOR);
    unlink("e.safetensors");
}

/* A file of F32 matrices, all of one number. */
void write_matrices(const char *path,
                    std::initializer_list<std::tuple<const char *, std::uint64_t, std::uint64_t, float>> all)
{
    cofferpp::header declared;
    for (const auto &[name, rows, columns, value] : all) {
        declared.add(name, COFFER_F32, { rows, columns });
    }
    cofferpp::writer out(path, std::move(declared));
    std::size_t i = 0;
    for (const auto &[name, rows, columns, value] : all) {
        out.write(i++, std::vector<float>(rows * columns, value));
    }
    out.finish();
}

float first_of(const char *path)
{
    float value = 0;
    const cofferpp::model file(path);
    EXPECT(coffer_read_part(file.get(), coffer_at(file.get(), 0), 0, &value, sizeof value, nullptr, nullptr) ==
           COFFER_OK);
    return value;
}

void test_diagnosis()
{
    write_matrices("e.safetensors", { { "q.weight", 2, 3, 1.0F } });
    const cofferpp::diagnosis found("e.safetensors");
    EXPECT(found.summary().errors == 0 && found.summary().model_count == 1 && !found.summary().data);
    EXPECT(found.at(0)->tensor_count == 1 && found.at(1) == nullptr);
    EXPECT(found.finding(found.summary().finding_count) == nullptr);
    EXPECT(thrown_by([] { return cofferpp::diagnosis("nothing.safetensors"); }).code() == COFFER_ERR_NOT_FOUND);
    unlink("e.safetensors");
}

void test_mixing()
{
    write_matrices("e.safetensors", { { "q.weight", 2, 3, 1.0F } });
    write_matrices("f.safetensors", { { "q.lora_A.weight", 4, 3, 1.0F }, { "q.lora_B.weight", 2, 4, 0.5F } });
    const cofferpp::model base("e.safetensors");
    const cofferpp::lora adapter("f.safetensors");
    EXPECT(cofferpp::companions(base).at(0) == nullptr && cofferpp::companions(".").at(0) == nullptr);
    EXPECT(thrown_by([] { return cofferpp::companions("missing/e"); }).code() == COFFER_ERR_NOT_FOUND);
    const coffer_adapter added[] = { { adapter.get(), 1.5 } };
    coffer_rewrite_options options = COFFER_REWRITE_OPTIONS_INIT;
    options.output = "g.safetensors";
    cofferpp::rewrite merged = cofferpp::rewrite::merge_lora(base, added, &options);
    EXPECT(merged.at(0)->computed && merged.update(0, 0)->rank == 4 && merged.update(0, 1) == nullptr);
    merged.run();
    EXPECT(first_of("g.safetensors") == 1 + 1.5F * 2);
    const cofferpp::model other("g.safetensors");
    const coffer *models[] = { base.get(), other.get() };
    options.output = "f.safetensors";
    cofferpp::rewrite::average(models, nullptr, &options).run();
    EXPECT(first_of("f.safetensors") == 2.5F);
    EXPECT(thrown_by([] { return cofferpp::lora("e.safetensors"); }).code() == COFFER_ERR_UNSUPPORTED);
    unlink("e.safetensors");
    unlink("f.safetensors");
    unlink("g.safetensors");
}

void test_extracting()
{
    write_matrices("e.safetensors", { { "q.weight", 20, 30, 1.0F } });
    write_matrices("f.safetensors", { { "q.weight", 20, 30, 3.0F } });
    const cofferpp::model base("e.safetensors");
    const cofferpp::model tuned("f.safetensors");
    coffer_extract_lora_options options = COFFER_EXTRACT_LORA_OPTIONS_INIT;
    EXPECT(thrown_by([&] { return cofferpp::extraction(base, tuned, options); }).code() == COFFER_ERR_ARGUMENT);
    options.rank = 1;
    try {
        cofferpp::extraction adapter(base, tuned, options);
        EXPECT(adapter.size() == 1 && adapter.at(0)->rank == 1 && adapter.at(1) == nullptr);
        adapter.run(".");
        EXPECT(adapter.at(0)->kept > 0.999);
        unlink("adapter_model.safetensors");
        unlink("adapter_config.json");
    } catch (const cofferpp::error &error) {
        EXPECT(error.code() == COFFER_ERR_UNSUPPORTED); /* a system without LAPACK */
    }
    unlink("e.safetensors");
    unlink("f.safetensors");
}

void test_adding()
{
    write_matrices("e.safetensors",
                   { { "lora_unet_q.lora_down.weight", 2, 30, 1.0F }, { "lora_unet_q.lora_up.weight", 20, 2, 1.0F } });
    const cofferpp::lora lora("e.safetensors");
    const coffer_adapter adapters[] = { { lora.get(), 1.0 }, { lora.get(), 0.5 } };
    cofferpp::addition sum(adapters);
    EXPECT(sum.size() == 1 && sum.at(0)->rank == 4 && sum.at(0)->adapter_count == 2 && sum.at(1) == nullptr);
    EXPECT(!sum.is_folder());
    sum.run("f.safetensors");
    EXPECT(sum.at(0)->kept == 1);
    EXPECT(cofferpp::model("f.safetensors").size() == 2);
    EXPECT(thrown_by([&] { return cofferpp::addition({}); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(thrown_by([&] {
               sum.run("f.safetensors");
               return 0;
           }).code() == COFFER_ERR_ARGUMENT);
    unlink("e.safetensors");
    unlink("f.safetensors");
}

void test_hashing()
{
    cofferpp::hasher hasher(COFFER_SHA256);
    const std::byte a[] = { std::byte{ 'a' } };
    hasher.update(a);
    hasher.update("b");
    hasher.update(std::vector<unsigned char>{ 'c' });
    const std::vector<std::uint8_t> abc = hasher.finish();
    EXPECT(abc.size() == 32 && abc[0] == 0xBA && abc[31] == 0xAD);
    hasher.update("");
    EXPECT(hasher.finish()[0] == 0xE3); /* the next one begins anew */
    EXPECT(thrown_by([] { return cofferpp::hasher(COFFER_NO_ALGORITHM); }).code() == COFFER_ERR_ARGUMENT);
}

void test_digests()
{
    const cofferpp::model model("m.safetensors");
    const std::vector<coffer_digest> all = model.digests(COFFER_SHA256);
    EXPECT(all.size() == 3 && std::memcmp(&all[1], model.digests(COFFER_SHA256).data() + 1, sizeof all[1]) == 0);
    const coffer_tensor *some[] = { model.at("w").get() };
    const coffer_digest w = model.digests(some, COFFER_SHA256).at(0);
    EXPECT(std::memcmp(&w, &all[1], sizeof w) == 0);
    const coffer_digest again = model.at("w").digest(COFFER_SHA256);
    EXPECT(std::memcmp(&again, &w, sizeof w) == 0);
    EXPECT(model.digests(cofferpp::span<const coffer_tensor *const>(), COFFER_SHA256).empty());
    EXPECT(model.content_digest(all, COFFER_SHA256).size() == 32);
    EXPECT(thrown_by([&] { return model.content_digest(model.digests(some, COFFER_SHA256), COFFER_SHA256); }).code() ==
           COFFER_ERR_ARGUMENT);
}

void test_verifying()
{
    write_file("v.safetensors");
    const auto verify = [](const auto &...given) {
        return thrown_by([&] {
            const cofferpp::model model("v.safetensors");
            EXPECT((model.recorded_algorithm() == COFFER_SHA256) == model.metadata(COFFER_DIGESTS_KEY).has_value());
            model.verify(given...);
            return 0;
        });
    };
    EXPECT(verify().code() == COFFER_ERR_NO_DIGESTS);
    EXPECT(cofferpp::record_digests("v.safetensors", COFFER_SHA256) != COFFER_EDITED_NOTHING);
    EXPECT(verify().code() == COFFER_OK);

    std::uint64_t place = 0;
    {
        const cofferpp::model model("v.safetensors");
        place = model.at("w").offset() + 3;
        model.at("w").verify();
    }
    const int fd = open("v.safetensors", O_WRONLY);
    EXPECT(pwrite(fd, "x", 1, static_cast<off_t>(place)) == 1 && close(fd) == 0);
    bool sound[3] = {};
    const auto damaged = verify(cofferpp::span<bool>(sound));
    EXPECT(damaged.code() == COFFER_ERR_TENSOR_DIGEST && "w"s == damaged.tensor());
    EXPECT(sound[0] && !sound[1] && sound[2]);
    EXPECT(verify(cofferpp::span<bool>(sound, 2)).code() == COFFER_ERR_ARGUMENT);

    const cofferpp::model model("v.safetensors");
    const coffer_tensor *some[] = { model.at("one").get(), model.at("ids").get() };
    model.verify(some);
    EXPECT(thrown_by([&] {
               model.verify(some, sound);
               return 0;
           }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(thrown_by([&] {
               model.at("w").verify();
               return 0;
           }).code() == COFFER_ERR_TENSOR_DIGEST);
    unlink("v.safetensors");
}

void test_manifests()
{
    cofferpp::manifest made("m");
    cofferpp::hasher hasher(COFFER_SHA256);
    made.add("m.safetensors", COFFER_SHA256, hasher.finish());
    made.ignore("tmp");
    made.set_follows_links(true);
    EXPECT(made.size() == 1 && !made.empty() && made.ignores("tmp/x") && !made.ignores("m") && made.follows_links());
    const std::string lines(made.write(COFFER_MANIFEST_LINES));
    EXPECT(lines == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  m.safetensors\n");
    const cofferpp::manifest read = cofferpp::manifest::parse(lines);
    EXPECT(read.format() == COFFER_MANIFEST_LINES && "m.safetensors"s == read[0].name && read[0].digest[0] == 0xE3);
    const std::uint8_t stub[] = { 1, 2, 3 };
    EXPECT(thrown_by([&] {
               made.add("x", COFFER_SHA256, stub);
               return 0;
           }).code() == COFFER_ERR_ARGUMENT);
    /* An empty key is a bad one; only without any is a signature not looked at. */
    EXPECT(thrown_by([&] { return cofferpp::manifest::parse(lines, std::string_view()); }).code() != COFFER_OK);
    EXPECT(thrown_by([&] { return made.write(COFFER_MANIFEST_BUNDLE, "no key"); }).code() == COFFER_ERR_KEY);
    EXPECT(thrown_by([] { return cofferpp::manifest::parse("nonsense"); }).code() == COFFER_ERR_MANIFEST);
}

/* ---- Fetching ---- */

void test_fetching()
{
    const cofferpp::model model("m.safetensors");
    const auto fetch = [&](const auto &...given) {
        return thrown_by([&] {
            model.fetch("here", given...);
            return 0;
        });
    };
    EXPECT(fetch().code() == COFFER_ERR_NOT_FOUND && mkdir("here", 0700) == 0);
    EXPECT(fetch().code() == COFFER_OK && cofferpp::model("here/m.safetensors").size() == 3);
    const coffer_tensor *const wanted[] = { coffer_at(model.get(), 1) };
    coffer_fetch_options options = COFFER_FETCH_OPTIONS_INIT;
    options.force = true;
    EXPECT(fetch(cofferpp::span<const coffer_tensor *const>(wanted), &options).code() == COFFER_OK);
    EXPECT(cofferpp::model("here/m.safetensors").size() == 1);
    EXPECT(fetch(cofferpp::span<const coffer_tensor *const>()).code() == COFFER_ERR_NO_TENSOR);
    EXPECT(unlink("here/m.safetensors") == 0 && rmdir("here") == 0);
}

/* An array of NumPy, written as a tensor: at once, in steps, and from what another process would have sent. */
void test_importing()
{
    std::string array("\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 67);
    array.resize(127, ' ');
    array += '\n';
    array.append("\0\0\x80\x3f\0\0\0\x40", 8);
    std::FILE *file = std::fopen("a.npy", "wb");
    EXPECT(file != nullptr && std::fwrite(array.data(), 1, array.size(), file) == array.size());
    std::fclose(file);
    cofferpp::input input("a.npy");
    EXPECT(input.size() == array.size());
    std::byte magic[1];
    input.read(0, 0, magic);
    EXPECT(magic[0] == std::byte{ 0x93 } && input.bytes_read() == 1);
    EXPECT(thrown_by([&] { return input.beside("absent"); }).code() == COFFER_ERR_SHARD_MISSING);
    cofferpp::imported first(input);
    EXPECT(first.summary().written_count == 1 && first.at(0)->size == 8 && first.at(1) == nullptr);
    EXPECT(first.finding(first.summary().finding_count) == nullptr);
    cofferpp::imported second(input, first.save());
    second.write("a.safetensors");
    const cofferpp::model model("a.safetensors");
    EXPECT(model.size() == 1 && model[0].as<float>()[1] == 2.0F);
    second.verify(model);
    cofferpp::header header;
    first.declare(header);
    cofferpp::writer writer("b.safetensors", std::move(header));
    first.carry(writer);
    writer.finish();
    first.verify(cofferpp::model("b.safetensors"));
    EXPECT(thrown_by([&] { first.add(second); }).code() == COFFER_ERR_ARGUMENT);
    EXPECT(model.import_of() == nullptr && cofferpp::model("a.npy").import_of() != nullptr);
    cofferpp::input taken("a.npy");
    cofferpp::imported described(taken);
    const cofferpp::model opened(std::move(taken), std::move(described));
    EXPECT(opened.size() == 1 && opened[0].as<float>()[1] == 2.0F && taken.get() == nullptr);
    EXPECT(rename("a.npy", "c.npy") == 0);
    cofferpp::input other("c.npy");
    cofferpp::imported both(other);
    both.add(first);
    EXPECT(both.summary().written_count == 2 && both.at(1)->size == 8);
    const auto from_nothing = [] { return cofferpp::imported(cofferpp::input("m.safetensors")).summary().written; };
    EXPECT(thrown_by(from_nothing).code() == COFFER_ERR_UNKNOWN_INPUT);
    EXPECT(unlink("c.npy") == 0 && unlink("a.safetensors") == 0 && unlink("b.safetensors") == 0);
}

} // namespace

/* ---- Loading ---- */

void test_loading()
{
    const cofferpp::model opened("m.safetensors");
    cofferpp::plan wanted(opened);
    wanted.add_all();
    const std::size_t last = wanted.add(*opened.find("w"), slice("1:, :2"));
    EXPECT(wanted.size() == 4 && !wanted.empty() && wanted[last].size == 8 && wanted[last].rank == 2);
    EXPECT(wanted.cost().needed == 24 + 16 + 2 + 8);
    EXPECT(wanted.engines() == 1U << COFFER_ENGINE_BUFFERED);
    cofferpp::loaded part;
    {
        const cofferpp::staging through;
        cofferpp::load loading(wanted, &through);
        part = loading.take(last);
        std::size_t count = 0;
        while (const auto item = loading.next()) {
            EXPECT(item->size() == wanted[item->item()].size);
            count++;
        }
        EXPECT(count == 3 && loading.stats().done == 50);
        loading.wait();
        EXPECT(thrown_by([&] { return loading.take(last).size(); }).code() == COFFER_ERR_TAKEN);
    }
    const float expected[] = { 3, 4 };
    EXPECT(part.size() == 8 && std::memcmp(part.bytes().data(), expected, sizeof expected) == 0);
    EXPECT(thrown_by([&] { return wanted.add_shard(*opened.find("w"), 1, {}, 0, 2); }).code() == COFFER_ERR_INDEX);
    const cofferpp::device host("cpu");
    EXPECT(host.describe().kind == COFFER_DEVICE_HOST);
    EXPECT(!cofferpp::list_facilities().empty());
}

/* ---- Several hosts ---- */

/* A host that is alone sends nothing. */
coffer_status carry_nothing(void *calls, const coffer_parcels *, coffer_error *)
{
    ++*static_cast<int *>(calls);
    return COFFER_OK;
}

coffer_status carry_fails(void *, const coffer_parcels *, coffer_error *)
{
    return COFFER_ERR_IO;
}

void test_exchange()
{
    int calls = 0;
    const cofferpp::model opened("m.safetensors");
    cofferpp::plan wanted(opened);
    wanted.add_all();
    const coffer_plan *const plans[] = { wanted.get() };
    const cofferpp::exchange alone(plans);
    EXPECT(alone.rounds() == 1 && alone.size() == 1 && alone[0].read == 42 && alone.bytes(0, 0, 0) == 42);
    const coffer_transport way = { carry_nothing, &calls, 0, 1 };
    const auto items = alone.run(wanted, way);
    EXPECT(items.size() == 3 && calls > 0);
    for (std::size_t i = 0; i < items.size(); i++) {
        EXPECT(items[i].item() == i && items[i].size() == wanted[i].size);
    }
    const coffer_transport broken = { carry_fails, nullptr, 0, 1 };
    EXPECT(thrown_by([&] { return alone.run(wanted, broken).size(); }).code() == COFFER_ERR_IO);
    EXPECT(thrown_by([&] { return cofferpp::exchange({}).size(); }).code() == COFFER_ERR_ARGUMENT);
    coffer_error why{};
    EXPECT(thrown_by([&] {
               cofferpp::exchange::refuse(way, why);
               return 0;
           }).code() == COFFER_ERR_ARGUMENT);
    why.code = COFFER_ERR_NOT_FOUND;
    calls = 0;
    cofferpp::exchange::refuse(way, why);
    EXPECT(calls == 1);
}

int main()
{
    write_file("m.safetensors");
    test_look_up();
    test_what_else_a_model_says();
    test_notes_have_a_subject();
    test_an_index();
    test_data();
    test_data_that_is_not_aligned();
    test_reading();
    test_reading_a_part();
    test_data_to_be_changed();
    test_options_arrive();
    test_slices();
    test_errors_carry_everything();
    test_a_constructor_that_throws_leaves_nothing();
    test_other_sources();
    test_moving();
    test_loading();
    test_exchange();
    test_a_writer_that_is_left_publishes_nothing();
    test_what_a_writer_refuses();
    test_writing_to_memory_and_in_pieces();
    test_what_a_header_refuses();
    test_encoding();
    test_copying();
    test_a_model_of_several_files();
    test_a_file_that_is_cut_short();
    test_a_model_writer_that_is_left_publishes_nothing();
    test_editing();
    test_rewriting();
    test_diagnosis();
    test_mixing();
    test_extracting();
    test_adding();
    test_hashing();
    test_digests();
    test_verifying();
    test_manifests();
    test_fetching();
    test_importing();
    unlink("m.safetensors");
    std::printf("%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
