/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of medians: as text, as JSON, as a picture by gnuplot. See bench.h. */
#include <errno.h>
#include <json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench.h"
#include "util.h"

struct cell {
	double *v;
	size_t n, cap;
};

struct column {
	char name[32];
	bool hidden;
};

struct table {
	struct table *next;
	char title[96], unit[24], head[24];
	unsigned rows, cols;
	char (*row)[24];
	struct column *col;
	struct cell *cell;
};

void tables_print(const struct bench *b);
void tables_print_json(const struct bench *b);
int tables_plot(const struct bench *b);
void tables_free(struct bench *b);

struct table *table_new(struct bench *b, const char *title, const char *unit, const char *head,
			unsigned rows, unsigned cols)
{
	struct table *t = xcalloc(1, sizeof(*t));

	snprintf(t->title, sizeof(t->title), "%s", title);
	snprintf(t->unit, sizeof(t->unit), "%s", unit);
	snprintf(t->head, sizeof(t->head), "%s", head);
	t->rows = rows;
	t->cols = cols;
	t->row = xcalloc(rows, sizeof(*t->row));
	t->col = xcalloc(cols, sizeof(*t->col));
	t->cell = xcalloc((size_t)rows * cols, sizeof(*t->cell));
	*b->last = t;
	b->last = &t->next;
	return t;
}

void table_row(struct table *t, unsigned row, const char *name)
{
	snprintf(t->row[row], sizeof(t->row[row]), "%s", name);
}

void table_col(struct table *t, unsigned col, const char *name)
{
	snprintf(t->col[col].name, sizeof(t->col[col].name), "%s", name);
}

void table_hide(struct table *t, unsigned col)
{
	t->col[col].hidden = true;
}

static struct cell *cell_of(const struct table *t, unsigned row, unsigned col)
{
	return &t->cell[row * t->cols + col];
}

void table_add(struct table *t, unsigned row, unsigned col, double value)
{
	struct cell *c = cell_of(t, row, col);

	c->v = grow_array(c->v, &c->cap, c->n + 1, sizeof(*c->v));
	c->v[c->n++] = value;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *v, size_t n)
{
	double sorted[64];

	if (!n)
		return 0;
	n = MIN(n, ARRAY_LEN(sorted));
	memcpy(sorted, v, n * sizeof(*v));
	qsort(sorted, n, sizeof(*sorted), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double table_get(const struct table *t, unsigned row, unsigned col)
{
	return median(cell_of(t, row, col)->v, cell_of(t, row, col)->n);
}

double table_ratio(const struct table *t, unsigned row, unsigned col, unsigned to)
{
	const struct cell *a = cell_of(t, row, col), *b = cell_of(t, row, to);
	size_t n = MIN(MIN(a->n, b->n), 64u);
	double v[64];

	for (size_t i = 0; i < n; i++)
		v[i] = a->v[i] / b->v[i];
	return median(v, n);
}

void tables_free(struct bench *b)
{
	for (struct table *t = b->tables, *next; t; t = next) {
		next = t->next;
		for (size_t i = 0; i < (size_t)t->rows * t->cols; i++)
			free(t->cell[i].v);
		free(t->cell);
		free(t->col);
		free(t->row);
		free(t);
	}
	b->tables = NULL;
}

/* ---- text ---- */

static void print_value(double v, size_t n)
{
	if (!n)
		printf(" %10s", "-");
	else
		printf(" %10.*f", v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0, v);
}

static void print_one(const struct table *t)
{
	printf("%s [%s]\n%-12s", t->title, t->unit, t->head);
	for (unsigned c = 0; c < t->cols; c++)
		printf(" %10s", t->col[c].name);
	putchar('\n');
	for (unsigned r = 0; r < t->rows; r++) {
		printf("%-12s", t->row[r]);
		for (unsigned c = 0; c < t->cols; c++)
			print_value(table_get(t, r, c), cell_of(t, r, c)->n);
		putchar('\n');
	}
	putchar('\n');
}

/* The processor's name, for who reads the numbers later. */
static void cpu_name(char *buf, size_t size)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[256], *colon;

	snprintf(buf, size, "unknown");
	while (f && fgets(line, sizeof(line), f)) {
		colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		line[strcspn(line, "\n")] = 0;
		snprintf(buf, size, "%s", colon + 2);
		break;
	}
	if (f)
		fclose(f);
}

void tables_print(const struct bench *b)
{
	char cpu[128];

	cpu_name(cpu, sizeof(cpu));
	printf("%s on %s (%s), %s, median of %u round%s\n\n", b->name,
	       b->scratch  ? "a file in memory"
	       : b->device ? b->device
			   : "nothing",
	       b->media ? media_kind_name(media_kind(b->media)) : "model", cpu, b->rounds,
	       b->rounds == 1 ? "" : "s");
	for (const struct table *t = b->tables; t; t = t->next)
		print_one(t);
}

/* ---- JSON ---- */

static json_object *json_row(const struct table *t, unsigned r)
{
	json_object *o = json_object_new_object();

	for (unsigned c = 0; c < t->cols; c++)
		if (cell_of(t, r, c)->n)
			json_object_object_add(o, t->col[c].name,
					       json_object_new_double(table_get(t, r, c)));
	return o;
}

void tables_print_json(const struct bench *b)
{
	json_object *all = json_object_new_object(), *list = json_object_new_array();
	char cpu[128];

	cpu_name(cpu, sizeof(cpu));
	json_object_object_add(all, "benchmark", json_object_new_string(b->name));
	json_object_object_add(
	    all, "medium",
	    json_object_new_string(b->media ? media_kind_name(media_kind(b->media)) : "model"));
	json_object_object_add(all, "cpu", json_object_new_string(cpu));
	json_object_object_add(all, "rounds", json_object_new_int((int)b->rounds));
	for (const struct table *t = b->tables; t; t = t->next) {
		json_object *o = json_object_new_object(), *rows = json_object_new_object();

		json_object_object_add(o, "title", json_object_new_string(t->title));
		json_object_object_add(o, "unit", json_object_new_string(t->unit));
		for (unsigned r = 0; r < t->rows; r++)
			json_object_object_add(rows, t->row[r], json_row(t, r));
		json_object_object_add(o, "rows", rows);
		json_object_array_add(list, o);
	}
	json_object_object_add(all, "tables", list);
	puts(json_object_to_json_string_ext(all, JSON_C_TO_STRING_PRETTY |
						     JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(all);
}

/* ---- picture ---- */

/* Text for gnuplot's double quotes, which knows no other escapes than these here. */
static void put_quoted(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			fputc('\\', f);
		fputc(*s == '_' ? '-' : *s, f);
	}
	fputc('"', f);
}

static void plot_data(FILE *f, const struct table *t, unsigned n)
{
	fprintf(f, "$data%u << END\n", n);
	for (unsigned r = 0; r < t->rows; r++) {
		put_quoted(f, t->row[r]);
		for (unsigned c = 0; c < t->cols; c++)
			if (cell_of(t, r, c)->n)
				fprintf(f, " %g", table_get(t, r, c));
			else
				fputs(" NaN", f);
		fputc('\n', f);
	}
	fputs("END\n", f);
}

static void plot_one(FILE *f, const struct table *t, unsigned n)
{
	const char *sep = "plot ";

	fputs("set title ", f);
	put_quoted(f, t->title);
	fputs("\nset ylabel ", f);
	put_quoted(f, t->unit);
	fputc('\n', f);
	for (unsigned c = 0; c < t->cols; c++) {
		if (t->col[c].hidden)
			continue;
		fprintf(f, "%s$data%u using 0:%u:xtic(1) with linespoints title ", sep, n,
			c + 2);
		put_quoted(f, t->col[c].name);
		sep = ", ";
	}
	fputc('\n', f);
}

int tables_plot(const struct bench *b)
{
	FILE *f = popen("gnuplot", "w");
	unsigned n = 0, i = 0;

	if (!f)
		bench_die("gnuplot", -errno);
	for (const struct table *t = b->tables; t; t = t->next)
		plot_data(f, t, n++);
	fprintf(f, "set terminal svg size 1000,%u dynamic background rgb 'white'\nset output ",
		n * 420);
	put_quoted(f, b->plot);
	fprintf(
	    f,
	    "\nset multiplot layout %u,1\nset key outside right\nset grid\nset yrange [0:*]\n"
	    "set xtics rotate by -40\n",
	    n);
	for (const struct table *t = b->tables; t; t = t->next)
		plot_one(f, t, i++);
	fputs("unset multiplot\n", f);
	if (!pclose(f))
		return 0;
	fprintf(stderr, "%s: gnuplot failed or is not installed\n", b->name);
	return -EIO;
}
